"""Run of publishes behind one closed gate: the checks of the first one apply to the next ones.

Between stop and capacity a message is accepted and its confirm withheld. A producer with a large window sends hundreds
of those in one broker turn. All of them join the first one's `PendingConfirm`, and their road is not checked again. The
run ends at the limit that the queue sets (`Queue.withheld_max_messages`), and with any other operation of the producer,
which takes the slow path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.queue.queue import Queue
from penstock.flow.confirms import PendingConfirm
from penstock.flow.gate_stats import BlockStats

if TYPE_CHECKING:
    from penstock.core.publish.context import PublishContext


class WithheldRun:
    """One run of one producer; it ends with the broker's turn, since later publishes have a later deadline."""

    __slots__ = ("queue", "pending", "entry", "now")

    def __init__(self, queue: Queue, pending: PendingConfirm, entry: BlockStats, now: float) -> None:
        self.queue = queue
        self.pending = pending
        self.entry = entry
        """The producer's statistics at the gate."""
        self.now = now
        """The broker's time (monotonic seconds) of the run."""

    def takes(self, queue: Queue | None, charge: i64, broker: PublishContext) -> bool:
        """Return whether one more publish to this queue alone, with this charge in bytes, may join."""
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
