"""Backup: a consistent copy of a store that is in use."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.errors import StoreError
from penstock.store.commit_counter import CommitCounter
from penstock.store.directory import synchronise
from penstock.store.faults import translated
from penstock.store.transaction_count import count_in

STEP_PAGES: Final = 256
"""Pages copied per step, 2 MiB; other threads may run in between."""
WAIT_S: Final = 5.0


def copy(path: Path, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Copy a store's file into a folder that is new or empty; the result is a complete data directory.

    While it runs, the write-ahead log grows by all that is written, because the copied state must stay readable.
    `progress` is called after each step with the pages left and the total. Raises StoreError, and removes the partial
    copy then.
    """
    part = target / (path.name + ".part")
    _prepare(path, target)
    try:
        with translated(target, "write", "the backup"):
            _copy(path, part, progress)
            synchronise(part)
            with translated(part, "read", "the backup"):
                count = count_in(part)
            part.rename(target / path.name)
            CommitCounter(target).make(count)
            synchronise(target.parent)
    finally:
        part.unlink(missing_ok=True)


def _prepare(path: Path, target: Path) -> None:
    if not path.exists():
        raise StoreError(f"there is no store '{path}' to back up")
    with translated(target, "write", "the backup"):
        if target.exists() and any(target.iterdir()):
            raise StoreError(f"cannot back up to '{target}': that folder is not empty")
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(target / (path.name + ".part"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _copy(path: Path, part: Path, progress: Callable[[int, int], None] | None) -> None:
    with contextlib.ExitStack() as stack:
        reader = _connect(path, stack, "ro")  # Read only: the writer owns the log.
        writer = _connect(part, stack, "rw")
        with translated(path, "read"):
            writer.execute("PRAGMA synchronous = OFF")  # Synchronised once, when it is complete.
            reader.execute("BEGIN")
            reader.execute("SELECT value FROM about").fetchall()  # From here on it reads this snapshot.
        with translated(part, "write", "the backup"):
            report = None if progress is None else (lambda _, left, pages: progress(left, pages))
            reader.backup(writer, pages=STEP_PAGES, progress=report)


def _connect(path: Path, stack: contextlib.ExitStack, mode: str) -> sqlite3.Connection:
    with translated(path, "open"):
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None)
    stack.callback(connection.close)
    return connection
