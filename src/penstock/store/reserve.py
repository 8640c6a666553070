"""Reserve of disk space for the store, in a file without content.

A broker must start on a full disk and must be able to write settlements, or the disk never gets free space again.
`min-disk-free` does not suffice, because other programs can use that space. So a file reserves blocks of the file
system while a broker runs, and a few while none does. When a write fails because the disk is full, the file is removed
and the write is retried. The disk gate stays closed until there is room to create the file again (Usage.needed).
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
RESERVE_FILE: Final = "reserve"
"""Name of the file in its data directory."""
RESERVE_BYTES: Final = 24 * MIB
"""Size on a file system of at least `WHOLE_BYTES`: the growth of the file by its log, and one transaction."""
STOPPED_BYTES: Final = 1 * MIB
"""Most bytes while no broker runs: a start needs the log's index and a few pages."""
WHOLE_BYTES: Final = 512 * MIB
"""Size of a file system from which the full sizes apply."""


def share(folder: Path) -> float:
    """Return the factor for all sizes on the file system of a folder: 1, or less on a small one."""
    try:
        system = os.statvfs(folder)
    except OSError:
        return 1.0
    return min(1.0, system.f_blocks * system.f_frsize / WHOLE_BYTES)


class Reserve:
    """Reserve file of one data directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / RESERVE_FILE

    def wanted(self) -> int:
        """Return its size in bytes while a broker runs."""
        return int(RESERVE_BYTES * share(self.path.parent))

    def missing(self) -> int:
        """Return the number of bytes that it lacks."""
        return max(0, self.wanted() - self._size())

    def make(self) -> None:
        """Grow it to its full size if the file system has room for that."""
        self._hold(self.wanted())

    def shrink(self) -> None:
        """Shrink it to what a start needs."""
        self._hold(min(self.wanted(), STOPPED_BYTES))

    def release(self) -> bool:
        """Free its space; return whether it had any."""
        size = self._size()
        with contextlib.suppress(OSError):
            self.path.unlink()
        return size > 0

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _hold(self, size: int) -> None:
        if self._size() == size:
            return
        try:
            number = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(number, min(size, self._size()))
                _allocate(number, self._size(), size)
            finally:
                os.close(number)
        except OSError:  # No room for all of it, and a part is useless.
            self.release()


def _allocate(number: int, begin: int, end: int) -> None:
    """Extend a file with allocated blocks. Raises OSError."""
    if begin == end:
        return
    if sys.platform == "darwin":  # The file system has no such call.
        for at in range(begin, end, MIB):
            os.pwrite(number, bytes(min(MIB, end - at)), at)
    else:
        os.posix_fallocate(number, begin, end - begin)
