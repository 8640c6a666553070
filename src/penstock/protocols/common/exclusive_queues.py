"""Exclusive queues of one connection, which end with it at the latest."""

from __future__ import annotations

from typing import Final

from penstock.core.queue.queue import Queue

DELETED_KEPT: Final = 64
"""Deleted queues that are still referred to, besides as many as there are others."""


class ExclusiveQueues:
    """Exclusive queues of one connection, by name.

    A queue may be deleted by its last consumer, its link or its expiry. Such queues are removed from time to time.
    """

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._most: int = DELETED_KEPT
        """Number of entries at which deleted queues are removed."""

    def add(self, queue: Queue) -> None:
        """Add a queue."""
        if len(self._queues) >= self._most:
            self._queues = {name: found for name, found in self._queues.items() if not found.deleted}
            self._most = 2 * len(self._queues) + DELETED_KEPT
        self._queues[queue.name] = queue

    def remove(self, name: str) -> None:
        """Remove a queue, if it is one of them."""
        self._queues.pop(name, None)

    def take(self) -> Queue | None:
        """Remove and return a queue, which may have been deleted; None if there is none."""
        return self._queues.popitem()[1] if self._queues else None

    def __len__(self) -> int:
        return len(self._queues)
