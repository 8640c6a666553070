"""Deferred freeing of removed messages, a slice a turn: freeing a million at once takes 70 ms (compiled).

Messages of a purged or deleted queue are also removed from the store and from address depths (`Leftovers`), which takes
another 150 ms for a million. A purge is answered after that (core/journal/journal.py). A deletion need not wait:
without a stored declaration no message of the queue is recovered.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.message import Expiry, Message
from penstock.flow.work import Chore, Chores

FREED_A_UNIT: Final = 8
"""Messages freed with one unit of work."""
RELEASED_A_UNIT: Final = 4
"""Messages removed from the store and freed with one unit of work."""


class DeferredFree(Chore):
    """Removed messages of a queue or session that no queue counts any more."""

    def __init__(self, is_counted: bool = False) -> None:
        super().__init__()
        self.is_counted = is_counted
        """True if other counts still include the messages; see `release`."""
        self._a_unit: i64 = RELEASED_A_UNIT if is_counted else FREED_A_UNIT
        self.lines: deque[deque[Message]] = deque()
        self.heaps: deque[list[tuple[int, Message]]] = deque()
        self.batches: deque[list[Message | None]] = deque()
        self.expiries: deque[list[tuple[float, int, Expiry]]] = deque()

    def begin(self, chores: Chores) -> None:
        """Free the messages in later turns."""
        if self.has_more():
            chores.add(self)

    def release(self, messages: list[Message | None], now: float) -> None:
        """Subtract messages from the counts that still include them."""

    @override
    def has_more(self) -> bool:
        return len(self.lines) + len(self.heaps) + len(self.batches) + len(self.expiries) > 0

    @override
    def work(self, most: i64, now: float) -> i64:
        left: i64 = most * self._a_unit
        while left > 0 and self.has_more():
            left -= self._free(left, now)
        return most - left // self._a_unit

    def _free(self, most: i64, now: float) -> i64:
        """Free messages of the first collection; returns their number, plus one for the collection itself."""
        if self.expiries:
            return self._free_expiries(self.expiries[0], most)
        if self.lines:
            line = self.lines[0]
            count = _fewer(len(line), most)
            self._free_front(line, count, now)
            if not line:
                self.lines.popleft()
            return count + 1
        if self.heaps:
            heap = self.heaps[0]
            count = _fewer(len(heap), most)
            if self.is_counted:
                self.release([entry[1] for entry in heap[len(heap) - count :]], now)
            del heap[len(heap) - count :]
            if not heap:
                self.heaps.popleft()
            return count + 1
        batch = self.batches.popleft()
        if self.is_counted:
            self.release(batch, now)
        return len(batch) + 1

    def _free_expiries(self, entries: list[tuple[float, int, Expiry]], most: i64) -> i64:
        count = _fewer(len(entries), most)
        for entry in entries[len(entries) - count :]:
            entry[2].message = None  # Breaks the reference cycle with the message.
        del entries[len(entries) - count :]
        if not entries:
            self.expiries.popleft()
        return count + 1

    def _free_front(self, line: deque[Message], count: int, now: float) -> None:
        """Free the oldest messages of a line. In this order the settlements are recorded as few ranges."""
        if not self.is_counted:
            for _ in range(count):
                line.popleft()
            return
        gone: list[Message | None] = [line.popleft() for _ in range(count)]
        self.release(gone, now)


def _fewer(count: int, most: i64) -> int:
    return count if count < most else int(most)
