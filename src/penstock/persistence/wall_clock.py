"""By which clock the times of a row are: the wall clock may be set while the broker runs, and the broker's own is not.

A row says when its messages came in seconds since the epoch, as the wall clock was when it was written. Pages are read
back by the same broker: by a clock that was set meanwhile their messages would be hours older, and expire, or younger.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from mypy_extensions import i64

JUMP_S: Final = 0.1
"""Seconds by which a clock must be off to count as another one."""
MOST: Final = 1000
"""So many clocks are remembered; then the oldest but one counts as the oldest."""


class WallTimes:
    """What makes seconds since the epoch of the broker's clock, for each row of the store."""

    def __init__(self, offset: float) -> None:
        """`offset` is that of the rows from before the broker was started, as they were recovered, in seconds."""
        self._numbers: list[int] = [0]
        """From which row on each counts."""
        self._offsets: list[float] = [offset]

    def write(self, number: i64, offset: float) -> None:
        """Rows from this number on are written with another offset, perhaps."""
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
