"""Queues with losses that are to be reported, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class UnreportedLosses:
    """The queues of one broker that lost messages since their last report: dropped, refused, or lost dead letters."""

    def __init__(self) -> None:
        self._queues: list[Queue] = []

    def add(self, queue: Queue) -> None:
        """Have a queue reported; its counters had nothing to report until now."""
        self._queues.append(queue)

    def take(self, most: int) -> list[Queue]:
        """Take so many queues to report, the latest first."""
        taken = self._queues[-most:]
        del self._queues[-most:]
        taken.reverse()
        return taken
