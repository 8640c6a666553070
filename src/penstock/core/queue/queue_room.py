"""Room that is reserved in a queue, and with it in the shared limits of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.flow.level import Level
from penstock.flow.reserved_room import ReservedRoom, RoomHolder

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class QueueRoom(ReservedRoom):
    """The reserved room of one queue, besides its depth."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue

    def reserves(self) -> bool:
        """Return whether granted credit has its room here: the queue holds publishes that do not fit into memory."""
        queue = self.queue
        return queue.overflow.reserves and not queue.deleted and queue.pager is None and queue.length is None

    def reserve(self, holder: RoomHolder, messages: i64, bytes: i64, still: bool, now: float) -> None:
        """Reserve room, or (negative) release it; see `ReservedRoom.count`."""
        self.count(holder, messages, bytes, still)
        self.queue.membership.count_reserved(now)
        self.queue.update_gate(now)

    def free(self) -> Level:
        """Return the room that is neither filled nor reserved."""
        queue = self.queue
        capacity = queue.thresholds.capacity
        return Level(
            capacity.messages - queue.messages - self.messages,
            capacity.bytes - queue.bytes - self.bytes,
        )

    def review(self, now: float) -> None:
        """Take reserved room back that no longer fits, here or in a shared limit; all of it if none may be reserved."""
        queue = self.queue
        if self.messages > 0:
            if self.reserves():
                capacity = queue.thresholds.capacity
                self.fit(capacity.messages - queue.messages, capacity.bytes - queue.bytes, now)
            else:
                self.fit(0, 0, now)
        for pool in queue.membership.pools:
            pool.fit_reserved(now)
