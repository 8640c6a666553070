"""How much room a store takes, and how it gives room back.

The rule. SQLite keeps pages that have become free, and writes over them later. When more than a quarter of the file is
free and that is more than 16 MiB, what is in use moves to the front, a little at a time, and the end is given back,
until no more than a tenth or 4 MiB are free. The log is as long as it has to be between two checkpoints, 16 MiB; when
there is nothing else to do and it is above 1 MiB, it is written back and cut off. On a file system below 512 MiB all of
these are smaller in proportion.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Final

from penstock.store.commit_counter import COUNTER_FILE
from penstock.store.reserve import share
from penstock.store.schema import PAGE_SIZE
from penstock.store.store import Usage

MIB: Final = 1024 * 1024
LOG_BYTES: Final = 16 * MIB
"""Length of the log at which a commit writes it back. Measured with rows of 1 MiB, a few of them live, for 4 / 16 / 64
MiB: 3.2 / 2.5 / 2.1 ms of CPU a commit, 2.1 / 1.4 / 1.1 times the data written; with a hundred live all are alike."""
LOG_LEAST: Final = MIB // 8
LOG_KEPT: Final = 1 * MIB
FREE_BEGIN: Final = 16 * MIB
FREE_END: Final = 4 * MIB
STEP_PAGES: Final = 4 * MIB // PAGE_SIZE
"""Pages given back in one step: about 10 ms of work, and at most twice their size written."""
STEP_LEAST: Final = 4
"""The same on a full disk, where a step must fit into the log as it is, at least."""


def log_bytes(path: Path) -> int:
    """Return at which length the log of a store is written back."""
    return max(LOG_LEAST, int(LOG_BYTES * share(path.parent)))


def measure(connection: sqlite3.Connection, path: Path) -> Usage:
    """Return how much room the file, its log, the log's index and the count of transactions take.

    What it needs is what the file has yet to grow when its log is written back, and the log up to its usual length and
    one transaction.
    """
    free, pages, page_size = _pages(connection)
    files = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
    taken = sum(_taken(file) for file in (*files, path.with_name(COUNTER_FILE)))
    left: int | None = None
    total: int | None = None
    with contextlib.suppress(OSError):
        system = os.statvfs(path.parent)
        left = system.f_bavail * system.f_frsize
        total = system.f_blocks * system.f_frsize
    growth = max(0, pages * page_size - _length(path))
    growth += max(0, log_bytes(path) * 3 // 2 - _length(path.with_name(path.name + "-wal")))
    return Usage(max(0, taken - free * page_size), taken, left, total, growth)


class Space:
    """Gives back what is free."""

    def __init__(self, path: Path) -> None:
        self._log = path.with_name(path.name + "-wal")
        self._shrinking = False
        self._step = STEP_PAGES
        self._shrunk = False
        """Pages have been cut off, and the file system does not know yet."""

    def reclaim(self, connection: sqlite3.Connection) -> bool:
        """Do one step; tells whether there is more to do. Raises sqlite3.Error."""
        free, pages, page_size = _pages(connection)
        free_bytes = free * page_size
        usual = share(self._log.parent)
        if self._shrinking:
            self._shrinking = free_bytes > FREE_END * usual and free * 10 > pages
        else:
            self._shrinking = free_bytes > FREE_BEGIN * usual and free * 4 > pages
        if self._shrinking:
            # A script runs to its end; execute() would stop after the first page, for it has no columns to give.
            connection.executescript(f"PRAGMA incremental_vacuum({self._step})")
            self._shrunk = True
            return True
        self._step = STEP_PAGES
        if self._shrunk or _length(self._log) > LOG_KEPT:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:  # Else somebody still reads an older state, a backup: next time.
                self._shrunk = False
        return False

    def take_smaller_steps(self) -> bool:
        """A step did not fit on the disk: make the next ones half as large; tells whether they can be."""
        self._step //= 2
        if self._step < STEP_LEAST:
            self._step = STEP_PAGES
            return False
        return True


def _pages(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return how many pages are free, how many there are, and their size in bytes."""
    free, pages, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("freelist_count", "page_count", "page_size")
    )
    return free, pages, size


def _taken(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512  # POSIX leaves the unit open; Linux, macOS and the BSDs count in 512.
    except FileNotFoundError:
        return 0


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
