"""Writer thread: writes items beside the event loop, together if there are many.

When there are many items, the thread wakes every few milliseconds and writes them together. A wake-up per item would
take the GIL from the event loop each time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

ITEMS_AT_ONCE: Final = 1000
"""Most records per write."""
MANY: Final = 20
"""Records per write above which a writer pauses for more: each write takes the GIL from the event loop."""
PAUSE_S: Final = 0.02


class WriterThread(Generic[Item]):
    """Thread that writes items in the order of their arrival; `waiting` are the items not taken yet."""

    def __init__(self, name: str, write: Callable[[list[Item]], None], leave_s: float) -> None:
        """`write` gets up to `ITEMS_AT_ONCE` items; `leave_s` are the seconds for the rest at the end."""
        self.waiting: deque[Item] = deque()
        self.ended = threading.Event()
        self._write = write
        self._leave_s = leave_s
        self._some = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.start = self._thread.start
        self.is_alive = self._thread.is_alive

    def add(self, items: Sequence[Item]) -> None:
        """Queue items; this call never blocks."""
        self.waiting.extend(items)
        if not self._some.is_set():
            self._some.set()

    def end(self) -> None:
        """Write the rest."""
        if self.is_alive():
            self.ended.set()
            self._some.set()
            self._thread.join(self._leave_s)

    def take(self) -> list[Item]:
        """Take the oldest items."""
        return [self.waiting.popleft() for _ in range(min(len(self.waiting), ITEMS_AT_ONCE))]

    def _run(self) -> None:
        while not self.ended.is_set() or self.waiting:
            if not self.waiting:
                self._some.wait()
            self._some.clear()
            items = self.take()
            self._write(items)
            if len(items) >= MANY:
                self.ended.wait(PAUSE_S)
