"""Wall clock of rows: the offset between wall clock and broker clock with which each row was written.

A row stores arrival times in seconds since the epoch, by the wall clock of its writing. The same broker reads pages
back. If the wall clock was set meanwhile, the messages would seem older, and expire, or younger.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from mypy_extensions import i64

JUMP_S: Final = 0.1
"""Seconds of difference from which a clock counts as set."""
MOST: Final = 1000
"""Most offsets in memory; beyond, the second oldest is merged into the oldest."""


class WallTimes:
    """Offsets from the broker's clock to seconds since the epoch, by row number."""

    def __init__(self, offset: float) -> None:
        """Take the offset of the rows before this start, as recovered, in seconds."""
        self._numbers: list[int] = [0]
        """Row numbers from which each offset applies."""
        self._offsets: list[float] = [offset]

    def write(self, number: i64, offset: float) -> None:
        """Record the offset of rows from this number on."""
        if abs(offset - self._offsets[len(self._offsets) - 1]) < JUMP_S:
            return
        self._numbers.append(int(number))
        self._offsets.append(offset)
        if len(self._numbers) > MOST:
            del self._numbers[1]
            del self._offsets[1]

    def of(self, number: i64) -> float:
        """Return the offset with which a row was written, in seconds, to within `JUMP_S`."""
        return self._offsets[bisect_right(self._numbers, int(number)) - 1]
