"""Sweep of the ready messages of a queue in slices: see `Sweep` in ready_queue.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.work import Chore

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


def sweep(queue: Queue) -> None:
    """Begin to sweep the ready messages of a queue in later turns, if a sweep is due."""
    if queue.ready_queue.begin_sweep():
        queue.turns.chores.add(Sweeping(queue))


class Sweeping(Chore):
    """A sweep of the tombstones and idle entries of a queue's ready messages."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue

    @override
    def has_more(self) -> bool:
        return not self._queue.ready_queue.is_swept()

    @override
    def work(self, most: i64, now: float) -> i64:
        return self._queue.ready_queue.sweep(most)
