"""Lag of a cursor on a queue: what is in the queue beyond the position that it has settled.

The ready messages of a queue with cursors have an index with sums, so a lag takes two binary searches, however many
messages lie before or behind the position. Unacknowledged messages of consumers are not a cursor's to read, and do not
count.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.queue.cursor import Position
from penstock.core.queue.indexed_ready_queue import REACH_WORK
from penstock.flow.timers import NEVER
from penstock.flow.work import WorkMeter

REACHED_AT_ONCE: Final = 50
"""Chunks of new messages that one look puts into the index; a position beyond them is looked at again later."""


class Lag:
    """Messages of a queue beyond a position, and the arrival of the oldest."""

    __slots__ = ("messages", "bytes", "oldest_arrived")

    def __init__(self, messages: i64, bytes: i64, oldest_arrived: float) -> None:
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        """Sum of their charges."""
        self.oldest_arrived = oldest_arrived
        """When the oldest of them arrived; infinity without any, and for one that is on the disk only."""

    def oldest_s(self, now: float) -> float | None:
        """Return the age of the oldest in seconds: 0 without any, None where it is on the disk only."""
        if self.oldest_arrived == NEVER:
            return 0.0 if self.messages == 0 else None
        return max(now - self.oldest_arrived, 0.0)


def lag_of(position: Position, work: WorkMeter) -> Lag | None:
    """Return the lag at a position; see `lag_after`."""
    return lag_after(position, position.settled, work)


def lag_after(position: Position, sequence: i64, work: WorkMeter) -> Lag | None:
    """Return what a queue has beyond a sequence.

    None where it cannot be counted now: the sequence is among messages on the disk, or so far behind those in the index
    that the index comes there at a later look.
    """
    queue = position.queue
    if queue.deleted or sequence >= queue.tail:
        return Lag(0, 0, NEVER)
    line = position.line
    left: i64 = REACHED_AT_ONCE
    while not line.reach(sequence):
        work.done += REACH_WORK
        left -= 1
        if left == 0:
            return None
    pages = queue.pager
    if pages is not None and pages.messages > 0 and sequence >= pages.next:
        return None
    passed, passed_bytes = line.count_through(sequence)
    oldest = line.step()
    return Lag(
        queue.depth_messages() - queue.unacked_messages - passed,
        queue.depth_bytes() - queue.unacked_bytes - passed_bytes,
        NEVER if oldest is None else oldest.arrived,
    )


def holds_back(position: Position) -> bool:
    """Return whether no other cursor of the queue has settled less: what it settles leaves the queue.

    Leases do not count: they keep what is settled, and end by themselves.
    """
    queue = position.queue
    for cursor in queue.cursors:
        if not cursor.is_lease and cursor.positions[queue.name].settled < position.settled:
            return False
    return not queue.deleted
