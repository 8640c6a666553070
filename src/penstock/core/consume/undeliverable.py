"""Messages that a consumer has called undeliverable (`undeliverable-here` of AMQP 1.0, section 3.4.5).

Where its queue has no dead-letter exchange they return, and only that consumer gets them no more. It passes them by a
scan, which it has from its first such message on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume import rotation
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.message_filter import MessageFilter
from penstock.core.consume.selector_scan import SelectorScan

if TYPE_CHECKING:
    from penstock.core.message import Message

EXCLUDED_MAX: Final = 1024
"""Messages that a consumer may exclude before its client is told."""
HARD_MAX: Final = 2 * EXCLUDED_MAX
"""Messages that it excludes at most. It gets others again."""


def exclude(consumer: Consumer, messages: list[Message | None]) -> None:
    """Exclude messages from what a consumer gets, before they return; nothing if it is not subscribed any more."""
    broker = consumer.broker
    if broker is None or not rotation.is_subscribed(consumer):
        return
    scan = consumer.scan
    if scan is None:
        scan = SelectorScan(consumer, MessageFilter(broker.formats), broker.work)
        rotation.begin_scan(consumer, scan)
    assert isinstance(scan, SelectorScan)
    for message in messages:
        if message is not None and len(scan.filter.excluded) < HARD_MAX:
            scan.filter.excluded.add(int(message.sequence))


def excluded(consumer: Consumer) -> i64:
    """Return how many messages a consumer has excluded."""
    scan = consumer.scan
    return len(scan.filter.excluded) if isinstance(scan, SelectorScan) else 0
