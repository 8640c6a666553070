"""Disk usage of a SQLite store: free pages, and the reserve of space.

SQLite keeps free pages and reuses them. When more than a quarter of the file and more than 16 MiB are free, used pages
move to the front in small steps and the end is cut off. The move continues until at most a tenth or 4 MiB are free. The
log grows up to 16 MiB between two checkpoints. When the store is idle and the log is above 1 MiB, the log is written
back and truncated. On a file system below 512 MiB all these sizes shrink in proportion.

A busy store is checked between two transactions, once a second. A busy store returns only free space that several
consecutive checks have found, so that space which a queue soon needs again is not returned.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from pathlib import Path
from typing import Final

from penstock.store.commit_counter import COUNTER_FILE
from penstock.store.schema import PAGE_SIZE
from penstock.store.store import Usage

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
        """Return the size in bytes while a broker runs."""
        return int(RESERVE_BYTES * share(self.path.parent))

    def missing(self) -> int:
        """Return the number of bytes missing to the full size."""
        return max(0, self.wanted() - self._size())

    def make(self) -> None:
        """Extend the file to its full size if the file system has enough room."""
        self._hold(self.wanted())

    def shrink(self) -> None:
        """Shrink the file to the size that a start needs."""
        self._hold(min(self.wanted(), STOPPED_BYTES))

    def release(self) -> bool:
        """Release the space; return whether there was any."""
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
        except OSError:  # There is no room for the full size, and a part would be useless.
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


LOG_BYTES: Final = 16 * MIB
"""Length of the log at which a commit runs a checkpoint.

Measured with rows of 1 MiB, a few of them live, for 4 / 16 / 64 MiB: 3.2 / 2.5 / 2.1 ms of CPU a commit, 2.1 / 1.4 /
1.1 times the data written; with a hundred live rows there is no difference.
"""
LOG_LEAST: Final = MIB // 8
LOG_KEPT: Final = 1 * MIB
FREE_BEGIN: Final = 16 * MIB
FREE_END: Final = 4 * MIB
FREED_AT_ONCE: Final = 4 * MIB // PAGE_SIZE
"""Pages returned per step: about 10 ms of work, and at most twice their size written."""
STEP_LEAST: Final = 4
"""Least pages per step on a full disk, on which a step must fit into the present size of the log."""


def log_bytes(path: Path) -> int:
    """Return the length at which the log of a store is written back."""
    return max(LOG_LEAST, int(LOG_BYTES * share(path.parent)))


def measure(connection: sqlite3.Connection, path: Path, data: Path, data_in_use: int) -> Usage:
    """Return the size of the file, its log, the log's index, the counter file and the data file.

    The reserve is not included. `data_in_use` are the bytes of the data file's blocks that are in use. `needed` is the
    growth of the file by a checkpoint, plus the growth of the log to its usual length and one transaction.
    """
    free, pages, page_size = _pages(connection)
    files = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
    taken = sum(_taken(file) for file in (*files, path.with_name(COUNTER_FILE)))
    growth = max(0, pages * page_size - _length(path))
    growth += max(0, log_bytes(path) * 3 // 2 - _length(path.with_name(path.name + "-wal")))
    used = max(0, taken - free * page_size)
    taken_by_data = _taken(data)
    return Usage(used + min(taken_by_data, data_in_use), taken + taken_by_data, None, None, growth)


def room(folder: Path) -> tuple[int | None, int | None]:
    """Return the free bytes and the size of the file system of a folder; None if unknown."""
    try:
        system = os.statvfs(folder)
    except OSError:
        return None, None
    return system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize


BUSY_LOOKS: Final = 3
"""Consecutive checks at which a busy store must have free space to return."""


class Surplus:
    """Free space that is worth returning, found by consecutive checks."""

    def __init__(self) -> None:
        self._looks: int = 0
        """Number of consecutive checks that have found free space."""

    def is_due(self, is_found: bool, idle: bool) -> bool:
        """Count a check of an idle or busy store; return whether the return of free space begins."""
        self._looks = self._looks + 1 if is_found else 0
        return self._looks >= (1 if idle else BUSY_LOOKS)


class Space:
    """Return of free pages, step by step."""

    def __init__(self, path: Path) -> None:
        self._log = path.with_name(path.name + "-wal")
        self._surplus = Surplus()
        self._shrinking = False
        self._step = FREED_AT_ONCE
        self._shrunk = False
        """True if pages were cut off in the log and not yet in the file."""
        self.is_done = False
        """True if there is nothing to return until the next transaction."""

    def begin(self) -> None:
        """Reset, because there is a transaction."""
        self.is_done = False

    def reclaim(self, connection: sqlite3.Connection, idle: bool) -> bool:
        """Do one step; return whether there is more. Raises sqlite3.Error."""
        free, pages, page_size = _pages(connection)
        free_bytes = free * page_size
        usual = share(self._log.parent)
        if self._shrinking:
            self._shrinking = free_bytes > FREE_END * usual and free * 10 > pages
        else:
            self._shrinking = self._surplus.is_due(free_bytes > FREE_BEGIN * usual and free * 4 > pages, idle)
        if self._shrinking:
            # A script runs to its end; execute() would stop after the first page, because it returns no columns.
            connection.executescript(f"PRAGMA incremental_vacuum({self._step})")
            self._shrunk = True
            return True
        self._step = FREED_AT_ONCE
        if self._shrunk or (idle and _length(self._log) > LOG_KEPT):
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:  # A backup still reads an older state: try again later.
                return False
            self._shrunk = False
        self.is_done = idle
        return False

    def take_smaller_steps(self) -> bool:
        """Halve the steps, because a step did not fit on the disk; return whether they can be smaller."""
        self._step //= 2
        if self._step < STEP_LEAST:
            self._step = FREED_AT_ONCE
            return False
        return True


def _pages(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return the number of free pages, of all pages, and their size in bytes."""
    free, pages, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("freelist_count", "page_count", "page_size")
    )
    return free, pages, size


def _taken(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512  # POSIX leaves the unit open; Linux, macOS and the BSDs use 512.
    except FileNotFoundError:
        return 0


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
