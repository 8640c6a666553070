"""Free-space gate: a bound on what the file system of the store must have left."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.gates.disk_gate import FREE_SPACE, DiskGate, DiskState
from penstock.flow.level import UNLIMITED

RESUME_PERCENT: Final = 110
"""Percent of the limit of free space at which its gate opens again; symmetric to 90 % of a quota."""


class FreeSpaceGate(DiskGate):
    """Minimum of free space on the file system, besides the store's own needs."""

    def __init__(self, disk: DiskState) -> None:
        super().__init__(disk, FREE_SPACE)
        self.bytes: i64 = 0
        self.percent: float = 0.0
        """The minimum in percent of the file system, if it was set so."""
        self.free: i64 = UNLIMITED
        """Free bytes at the last check."""
        self.total: i64 = 0
        """Size of the file system; 0 until it is known."""

    def recheck_at(self) -> i64:
        """Return the free bytes below which it closes."""
        if self.percent == 0.0:
            return self.bytes
        return i64(int(self.total) * round(self.percent * 100) // 10_000)

    def resume(self) -> i64:
        """Return the free bytes at which it opens: a tenth more, or half of the space beyond the minimum."""
        mark = self.recheck_at()
        more = mark * (RESUME_PERCENT - 100) // 100
        beyond = (self.total - mark) // 2
        if self.total > 0 and beyond < more:
            more = beyond if beyond > 0 else 0
        return mark + more

    def judge(self, free: i64, now: float) -> None:
        """Close below the minimum, open some way above it."""
        self.free = free
        if self.gate.open and free < self.recheck_at():
            self.move(True, free, now)
        elif not self.gate.open and free >= self.resume():
            self.move(False, free, now)
        self.update_gate(now)

    def full_percent(self) -> int:
        """Return the limit as the used share of the file system, in whole percent: 0 if the minimum is all of it."""
        return max(100 - int(self.recheck_at() * 100 // self.total), 0) if self.total > 0 else 100

    @override
    def describe_cause(self, now: float) -> str:
        free = "0" if self.free < 0 else f"{int(self.free):,}"
        sign = "<" if self.free < self.recheck_at() else "after less than"
        needed = f", besides {int(self.disk.needed):,} for the store itself" if self.disk.needed else ""
        mark = f"min-disk-free {int(self.recheck_at()):,} (opens at {int(self.resume()):,})"
        return f"{free} bytes free {sign} {mark}{needed}"
