"""Queues with losses that are to be reported, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class UnreportedLosses:
    """The queues of one broker that lost messages since their last report, and the losses of all since the start."""

    def __init__(self) -> None:
        self._queues: list[Queue] = []
        self.dropped: i64 = 0
        self.refused: i64 = 0
        """Messages of all queues that overflow policies dropped, or refused, since the start."""
        self.expired: i64 = 0
        self.dead_lettered: i64 = 0
        self.dead_letters_lost: i64 = 0

    def add(self, queue: Queue) -> None:
        """Have a queue reported; its counters had nothing to report until now."""
        self._queues.append(queue)

    def take(self, most: int) -> list[Queue]:
        """Take so many queues to report, the latest first."""
        taken = self._queues[-most:]
        del self._queues[-most:]
        taken.reverse()
        return taken
