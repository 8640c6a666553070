"""Room on the file system that is kept for the store itself, in a file that holds nothing.

A broker on a full disk must start, and must be able to write that messages were consumed, or the disk never gets room
again. `min-disk-free` is others' to take. So a file keeps blocks of the file system while a broker runs, and a few of
them while none does. When a write of the store fails for want of room, the file is removed and the write tried again;
while it is missing, the gate of the free room stays closed (Usage.needed). It is made again when there is room for it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
RESERVE_FILE: Final = "reserve"
"""The file's name in its data directory."""
RESERVE_BYTES: Final = 24 * MIB
"""On a file system of `WHOLE_BYTES` and more: what the log may have to add to the file, and one transaction."""
STOPPED_BYTES: Final = 1 * MIB
"""While no broker runs, at most: to start takes the log's index and a few pages; what is in the log is written back."""
WHOLE_BYTES: Final = 512 * MIB
"""Size of a file system from which on nothing is made smaller."""


def share(place: Path) -> float:
    """Return which share of the usual sizes is right for the file system of a folder: 1, or less on a small one."""
    try:
        system = os.statvfs(place)
    except OSError:
        return 1.0
    return min(1.0, system.f_blocks * system.f_frsize / WHOLE_BYTES)


class Reserve:
    """The file of one data directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / RESERVE_FILE

    def wanted(self) -> int:
        """Return how many bytes it should have while a broker runs."""
        return int(RESERVE_BYTES * share(self.path.parent))

    def missing(self) -> int:
        """Return how many bytes of it are not there."""
        return max(0, self.wanted() - self._kept())

    def make(self) -> None:
        """Make it whole, if it is not and the file system has room for it."""
        self._hold(self.wanted())

    def shrink(self) -> None:
        """Keep as much as it takes to start."""
        self._hold(min(self.wanted(), STOPPED_BYTES))

    def release(self) -> bool:
        """Give its room away; tells whether there was any."""
        kept = self._kept()
        with contextlib.suppress(OSError):
            self.path.unlink()
        return kept > 0

    def _kept(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _hold(self, size: int) -> None:
        if self._kept() == size:
            return
        try:
            number = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(number, min(size, self._kept()))
                _allocate(number, self._kept(), size)
            finally:
                os.close(number)
        except OSError:  # There is no room for it: half of it would help nobody.
            self.release()


def _allocate(number: int, begin: int, end: int) -> None:
    """Have a file grow with blocks that are really its own. Raises OSError."""
    if begin == end:
        return
    if sys.platform == "darwin":  # It has no such call.
        for at in range(begin, end, MIB):
            os.pwrite(number, bytes(min(MIB, end - at)), at)
    else:
        os.posix_fallocate(number, begin, end - begin)
