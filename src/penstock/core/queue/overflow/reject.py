"""reject: the publish is refused, and its publisher notified.

The notice is a nack in confirm mode; without confirms a mandatory message is returned. RabbitMQ's reject-publish,
Broker-J's REJECT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.overflow.policy import REFUSE, OverflowPolicy

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class Reject(OverflowPolicy):
    """Refuse the publish."""

    name = "reject"
    counts_ready = True
    returns_refused = True

    @override
    def verdict(self, queue: Queue, charge: i64) -> int:
        return REFUSE
