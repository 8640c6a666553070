"""Deferred freeing of removed messages, a slice a turn: freeing a million at once takes 70 ms (compiled)."""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.core.message import Expiry, Message
from penstock.flow.chores import Chore

FREED_A_UNIT: Final = 8
"""Messages freed with one unit of work."""


class Leftovers(Chore):
    """Removed messages of a queue or session, no longer counted anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[deque[Message]] = deque()
        self.heaps: deque[list[tuple[int, Message]]] = deque()
        self.batches: deque[list[Message | None]] = deque()
        self.expiries: deque[list[tuple[float, int, Expiry]]] = deque()

    def has_more(self) -> bool:
        """See `Chore.has_more`."""
        return len(self.lines) + len(self.heaps) + len(self.batches) + len(self.expiries) > 0

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`."""
        left: i64 = most * FREED_A_UNIT
        while left > 0 and self.has_more():
            left -= self._free(left)
        return most - left // FREED_A_UNIT

    def _free(self, most: i64) -> i64:
        """Free messages of the first collection; returns how many, plus one for the collection itself."""
        if self.expiries:
            entries = self.expiries[0]
            count = _fewer(len(entries), most)
            for entry in entries[len(entries) - count :]:
                entry[2].message = None  # Breaks the reference cycle with the message.
            del entries[len(entries) - count :]
            if not entries:
                self.expiries.popleft()
            return count + 1
        if self.lines:
            line = self.lines[0]
            count = _fewer(len(line), most)
            for _ in range(count):
                line.pop()
            if not line:
                self.lines.popleft()
            return count + 1
        if self.heaps:
            heap = self.heaps[0]
            count = _fewer(len(heap), most)
            del heap[len(heap) - count :]
            if not heap:
                self.heaps.popleft()
            return count + 1
        batch = self.batches.popleft()
        return len(batch) + 1


def _fewer(count: int, most: i64) -> int:
    return count if count < most else int(most)
