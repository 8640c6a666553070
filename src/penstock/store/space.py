"""Disk usage of a SQLite store, and the return of free pages to the file system.

SQLite keeps free pages and reuses them. When more than a quarter of the file and more than 16 MiB are free, used pages
move to the front in small steps and the end is cut off. That continues until at most a tenth or 4 MiB are free. The log
grows up to 16 MiB between two checkpoints. When the store is idle and the log is above 1 MiB, the log is written back
and truncated. On a file system below 512 MiB all these sizes shrink in proportion.
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
"""Length of the log at which a commit runs a checkpoint.

Measured with rows of 1 MiB, a few of them live, for 4 / 16 / 64 MiB: 3.2 / 2.5 / 2.1 ms of CPU a commit, 2.1 / 1.4 /
1.1 times the data written; with a hundred live all are alike.
"""
LOG_LEAST: Final = MIB // 8
LOG_KEPT: Final = 1 * MIB
FREE_BEGIN: Final = 16 * MIB
FREE_END: Final = 4 * MIB
STEP_PAGES: Final = 4 * MIB // PAGE_SIZE
"""Pages returned per step: about 10 ms of work, and at most twice their size written."""
STEP_LEAST: Final = 4
"""Least pages per step on a full disk, where a step must fit into the log as it is."""


def log_bytes(path: Path) -> int:
    """Return the length at which the log of a store is written back."""
    return max(LOG_LEAST, int(LOG_BYTES * share(path.parent)))


def measure(connection: sqlite3.Connection, path: Path) -> Usage:
    """Return the size of the file, its log, the log's index and the counter file.

    `needed` is the growth of the file by a checkpoint, plus the growth of the log to its usual length and one
    transaction.
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
    """Return of free pages, step by step."""

    def __init__(self, path: Path) -> None:
        self._log = path.with_name(path.name + "-wal")
        self._shrinking = False
        self._step = STEP_PAGES
        self._shrunk = False
        """True if pages were cut off in the log and not yet in the file."""

    def reclaim(self, connection: sqlite3.Connection) -> bool:
        """Do one step; return whether there is more. Raises sqlite3.Error."""
        free, pages, page_size = _pages(connection)
        free_bytes = free * page_size
        usual = share(self._log.parent)
        if self._shrinking:
            self._shrinking = free_bytes > FREE_END * usual and free * 10 > pages
        else:
            self._shrinking = free_bytes > FREE_BEGIN * usual and free * 4 > pages
        if self._shrinking:
            # A script runs to its end; execute() would stop after the first page, because it returns no columns.
            connection.executescript(f"PRAGMA incremental_vacuum({self._step})")
            self._shrunk = True
            return True
        self._step = STEP_PAGES
        if self._shrunk or _length(self._log) > LOG_KEPT:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:  # Otherwise a backup still reads an older state: try again later.
                self._shrunk = False
        return False

    def take_smaller_steps(self) -> bool:
        """Halve the steps, because one did not fit on the disk; return whether they can be smaller."""
        self._step //= 2
        if self._step < STEP_LEAST:
            self._step = STEP_PAGES
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
