"""When the store is looked at to see how much room it takes: the nearer a mark, the more often.

Theory of operation. The writer's thread looks, for a look may wait for the disk. Far from every mark it looks four
times a second while it writes, and once a second when it does not; nearer, whenever a quarter of what is left to the
nearest mark has been written. So between two looks no more is written than that and one transaction. What is not
written yet the broker counts itself (core/gates/disk.py). While a gate is closed for want of room the store is tidied
up after each transaction, and looked at ten times a second at least, so that the gate opens as soon as there is room.
"""

from __future__ import annotations

import time
from typing import Final

from penstock.store.store import Store, Usage

LOOK_S: Final = 0.25
"""Seconds between two looks while much is written and no mark is near."""
IDLE_S: Final = 1.0
"""Seconds without anything to write after which the store is tidied up and looked at."""
SHORT_S: Final = 0.1
"""The same while there is too little room."""
PART: Final = 4
"""This part of what is left to the nearest mark may be written between two looks."""


class DiskSampler:
    """Of one store; `left` and `short` are set by the event loop, everything else is the writer's."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.left: int = 0
        """Bytes that may still come before a gate closes."""
        self.short: bool = False
        """Whether a gate is closed for want of room."""
        self._written: int = 0
        self._looked: float = 0.0

    def patience_s(self) -> float:
        """Return after how many seconds without anything to write the store is looked at."""
        return SHORT_S if self.short else IDLE_S

    def wrote(self, size: int) -> Usage | None:
        """So many bytes were written; returns what room the store takes if it is time to look. Raises StoreError."""
        self._written += size
        if self._written * PART < self.left and time.monotonic() - self._looked < LOOK_S:
            return None
        if self.short:
            self.store.reclaim_space()
        return self.sample()

    def sample(self) -> Usage:
        """Return what room the store takes. Raises StoreError."""
        self._written = 0
        self._looked = time.monotonic()
        return self.store.usage()
