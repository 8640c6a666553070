"""Withdrawal of held publishes by their clients.

A *prompt* producer is one whose client stops by exact credit or by channel.flow: no gate withholds its confirms. What
is held nevertheless, its client takes back at its time-out, so that it knows what was not sent (decision 105).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.publish.held import HeldPublish
from penstock.core.publish.hold_events import end_hold
from penstock.flow.refusal import WITHDRAWN, Refusal

if TYPE_CHECKING:
    from penstock.core.publish.producer import Producer
BY_PUBLISHER: Final = "withdrawn by its publisher"


def withdraw(producer: Producer, number: i64) -> bool:
    """Refuse the held publish of this number, because its client takes it back; returns False if it is not held."""
    found: HeldPublish | None = None
    for held in producer.outbox:
        if isinstance(held, HeldPublish) and held.pending is not None and held.pending.number == number:
            found = held
            break
    if found is None or found.pending is None:
        return False
    is_first = found is producer.outbox[0]
    producer.outbox.remove(found)
    producer.hold_budget.release(found.charge, found.messages)
    end_hold(producer, found, WITHDRAWN)
    for queue in found.queues:
        queue.counters.count_refusal()
        producer.count_refused(queue.gate, WITHDRAWN, found.charge, BY_PUBLISHER)
    refusal = Refusal(WITHDRAWN, found.gate, BY_PUBLISHER, retriable=True)
    producer.confirms.refuse(found.pending, refusal)
    if is_first:
        producer.rejoin_line(producer.broker.now)
    producer.after_release(producer.broker.now)
    return True
