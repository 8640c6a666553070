"""Backup of a SQLite store: a consistent copy of the database and its data file, while a broker uses them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.errors import StoreError
from penstock.store.commit_counter import CommitCounter, count_in
from penstock.store.data_file import DATA_FILE, begin_of
from penstock.store.directory import synchronise
from penstock.store.faults import translated
from penstock.store.reading import places_in
from penstock.store.schema import PAGE_SIZE
from penstock.store.tables import length_of

COPIED_AT_ONCE: Final = 256
"""Pages copied per step, 2 MiB; other threads may run in between."""
COPIED_BYTES: Final = COPIED_AT_ONCE * PAGE_SIZE
"""Bytes of the data file copied per step."""
WAIT_S: Final = 5.0


def copy(path: Path, target: Path, progress: Callable[[int, int], None] | None = None) -> int:
    """Copy a store's files into a folder that is new or empty; return the bytes of the copy.

    The result is a complete data directory. During the copy, the write-ahead log grows by all writes, and no block of
    the data file is reused, because the copied state must stay readable. `progress` is called after each step with the
    pages left and the total. Raises StoreError, after removing the partial copy.
    """
    part, data = target / (path.name + ".part"), target / DATA_FILE
    _prepare(path, target)
    try:
        with translated(target, "write", "the backup"):
            _copy(path, part, data, progress or _ignore)
            synchronise(part)
            with translated(part, "read", "the backup"):
                count = count_in(part)
            part.rename(target / path.name)
            CommitCounter(target).make(count)
            synchronise(target.parent)
    except BaseException:
        data.unlink(missing_ok=True)
        raise
    finally:
        part.unlink(missing_ok=True)
    octets = (target / path.name).stat().st_size
    return octets + (data.stat().st_blocks * 512 if data.exists() else 0)


def _ignore(left: int, pages: int) -> None:
    """Report nothing."""


def _prepare(path: Path, target: Path) -> None:
    if not path.exists():
        raise StoreError(f"there is no store '{path}' to back up")
    with translated(target, "write", "the backup"):
        if target.exists() and any(target.iterdir()):
            raise StoreError(f"cannot back up to '{target}': that folder is not empty")
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(target / (path.name + ".part"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _copy(path: Path, part: Path, data: Path, progress: Callable[[int, int], None]) -> None:
    source = path.with_name(DATA_FILE)
    with contextlib.ExitStack() as stack:
        reader = _connect(path, stack, "ro")  # Read-only: the writer owns the log.
        writer = _connect(part, stack, "rw")
        with translated(path, "read"):
            writer.execute("PRAGMA synchronous = OFF")  # Synchronised once, when the copy is complete.
            held = _held(source, stack)
            _begin(reader)
            if held is None and (held := _held(source, stack)) is not None:  # The file was just created.
                reader.execute("COMMIT")
                _begin(reader)
            extents = [] if held is None else _extents(reader, held)
            (pages,) = reader.execute("PRAGMA page_count").fetchone()
        left = sum(length for _, length in extents) // PAGE_SIZE
        total = pages + left
        if held is not None:
            target = os.open(data, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            stack.callback(os.close, target)
            for begin, length in extents:
                for at in range(begin, begin + length, COPIED_BYTES):
                    _copy_octets(held, target, at, min(COPIED_BYTES, begin + length - at))
                left -= length // PAGE_SIZE
                progress(pages + max(0, left), total)
            os.fsync(target)
        with translated(part, "write", "the backup"):
            reader.backup(writer, pages=COPIED_AT_ONCE, progress=lambda _, left, pages: progress(left, total))


def _held(source: Path, stack: contextlib.ExitStack) -> int | None:
    """Open the data file, and hold it until the end: no freed block is reused; None if there is no file."""
    try:
        number = os.open(source, os.O_RDONLY)
    except FileNotFoundError:
        return None
    stack.callback(os.close, number)
    fcntl.flock(number, fcntl.LOCK_SH)
    return number


def _begin(reader: sqlite3.Connection) -> None:
    reader.execute("BEGIN")
    reader.execute("SELECT value FROM about").fetchall()  # The reader uses this snapshot from here on.


def _extents(reader: sqlite3.Connection, held: int) -> list[tuple[int, int]]:
    """Return the positions and lengths of all data in the data file; of the whole file if damage may hide some."""
    places = places_in(reader)
    if places is None:
        return [(0, os.fstat(held).st_size)]
    return [(begin_of(place), length_of(place)) for place in sorted(places)]


def _copy_octets(source: int, target: int, at: int, length: int) -> None:
    octets = memoryview(os.pread(source, length, at))
    while octets:
        written = os.pwrite(target, octets, at)
        octets, at = octets[written:], at + written


def _connect(path: Path, stack: contextlib.ExitStack, mode: str) -> sqlite3.Connection:
    with translated(path, "open"):
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None)
    stack.callback(connection.close)
    return connection
