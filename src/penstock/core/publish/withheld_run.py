"""Publishes in a row behind one closed gate: what the first of them found out holds for the next.

Between stop and capacity a message is taken and its confirmation withheld. A producer with a large window brings
hundreds of such in one turn of the broker; all of them join the first one's `PendingConfirm`, and the rest of the road
is not looked at again. What could change the answer ends the row: the queue says how far it may go
(`Queue.withheld_max_messages`), and whatever else becomes of its producer takes the careful way, which begins another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.queue.queue import Queue
from penstock.flow.confirms import PendingConfirm
from penstock.flow.gate_stats import BlockStats

if TYPE_CHECKING:
    from penstock.core.broker import Broker


class WithheldRun:
    """One row, of one producer; it ends with the broker's turn, for those after it have a later deadline."""

    __slots__ = ("queue", "pending", "entry", "now")

    def __init__(self, queue: Queue, pending: PendingConfirm, entry: BlockStats, now: float) -> None:
        self.queue = queue
        self.pending = pending
        self.entry = entry
        """What the gate's book says about the producer."""
        self.now = now
        """The broker's time (monotonic seconds) for which it holds."""

    def takes(self, queue: Queue | None, charge: i64, broker: Broker) -> bool:
        """Return whether one more may join that is on its way to this queue alone, with this charge in bytes."""
        return (
            queue is self.queue
            and self.queue.messages < self.queue.withheld_max_messages
            and self.queue.bytes + charge <= self.queue.withheld_max_bytes
            and self.now == broker.now
            and not broker.turns.pending
        )

    def join(self, number: i64, charge: i64) -> None:
        """Count one more: its number among its producer's publishes, and its charge in bytes."""
        self.pending.number = number
        entry = self.entry
        entry.withheld += 1
        entry.withheld_bytes += int(charge)
