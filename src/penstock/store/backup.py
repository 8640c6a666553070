"""A copy of a store that is in use, as it was at one moment."""

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
from penstock.store.faults import fault, refused
from penstock.store.transaction_count import count_in

STEP_PAGES: Final = 256
"""Pages copied at a time, 2 MiB; in between others may run."""
WAIT_S: Final = 5.0


def copy(path: Path, target: Path, told: Callable[[int, int], None] | None = None) -> None:
    """Copy a store's file into a folder, which is made or empty; it is a whole data directory when this returns.

    While it runs the log of the store grows by all that is written, for the moment that is copied must stay. `told`
    hears after each step how many pages are left, and of how many. Raises StoreError, and leaves nothing behind then.
    """
    part = target / (path.name + ".part")
    _prepare(path, target)
    try:
        _copy(path, part, told)
        synchronise(part)
        count = count_in(part)
        part.rename(target / path.name)
        CommitCounter(target).make(count)
        synchronise(target.parent)
    except OSError as error:
        raise refused(error, target, "write", "the backup") from None
    except sqlite3.Error as error:
        raise fault(error, part, "read", "the backup") from None
    finally:
        part.unlink(missing_ok=True)


def _prepare(path: Path, target: Path) -> None:
    if not path.exists():
        raise StoreError(f"there is no store '{path}' to back up")
    try:
        if target.exists() and any(target.iterdir()):
            raise StoreError(f"cannot back up to '{target}': that folder is not empty")
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(target / (path.name + ".part"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise refused(error, target, "write", "the backup") from None


def _copy(path: Path, part: Path, told: Callable[[int, int], None] | None) -> None:
    with contextlib.ExitStack() as stack:
        reader = _connect(path, stack, "ro")  # It only reads: the log is the writer's.
        writer = _connect(part, stack, "rw")
        try:
            writer.execute("PRAGMA synchronous = OFF")  # It is synchronised once, when it is whole.
            reader.execute("BEGIN")
            reader.execute("SELECT value FROM about").fetchall()  # From here on it sees this state and no other.
        except sqlite3.Error as error:
            raise fault(error, path, "read") from None
        try:
            progress = None if told is None else (lambda _, left, pages: told(left, pages))
            reader.backup(writer, pages=STEP_PAGES, progress=progress)
        except sqlite3.Error as error:
            raise fault(error, part, "write", "the backup") from None


def _connect(path: Path, stack: contextlib.ExitStack, mode: str) -> sqlite3.Connection:
    try:
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None)
    except sqlite3.Error as error:
        raise fault(error, path, "open") from None
    stack.callback(connection.close)
    return connection
