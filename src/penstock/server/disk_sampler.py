"""Disk sampler: measures the store's disk usage, more often the nearer a threshold is.

Theory of operation. The writer's thread takes the samples, because one may wait for the disk. Far from all thresholds
it samples four times a second while it writes, and once a second when idle. Near a threshold it samples whenever a
quarter of the remaining bytes has been written. So between two samples the store writes at most that and one
transaction. The broker itself counts data that is not written yet (core/gates/disk.py). While a disk gate is closed,
the store reclaims space after each transaction and is sampled at least ten times a second, so that the gate opens as
soon as there is room.
"""

from __future__ import annotations

import time
from typing import Final

from penstock.store.store import Store, Usage

LOOK_S: Final = 0.25
"""Seconds between two samples during writes, far from a threshold."""
IDLE_S: Final = 1.0
"""Idle seconds after which the store reclaims space and is sampled."""
SHORT_S: Final = 0.1
"""The same while a disk gate is closed."""
PART: Final = 4
"""Part of the bytes left to the nearest threshold that may be written between two samples, as a divisor."""


class DiskSampler:
    """Sampler of one store. The event loop sets `left` and `short`; the writer owns everything else."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.left: int = 0
        """Bytes that may be written before a gate closes."""
        self.short: bool = False
        """True if a disk gate is closed."""
        self._written: int = 0
        self._looked: float = 0.0

    def patience_s(self) -> float:
        """Return the idle seconds until the next sample."""
        return SHORT_S if self.short else IDLE_S

    def wrote(self, size: int) -> Usage | None:
        """Count written bytes; return the disk usage if a sample is due. Raises StoreError."""
        self._written += size
        if self._written * PART < self.left and time.monotonic() - self._looked < LOOK_S:
            return None
        if self.short:
            self.store.reclaim_space()
        return self.sample()

    def sample(self) -> Usage:
        """Return the present disk usage. Raises StoreError."""
        self._written = 0
        self._looked = time.monotonic()
        return self.store.usage()
