"""Translation of SQLite's errors into store errors with one sentence for users."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.errors import StoreError, StoreFull

NO_ROOM: Final = 1024 * 1024
"""Bytes free on a file system at or below which a failed write counts as a full disk.

SQLite does not always distinguish a full disk from a broken one.
"""
DAMAGED: Final = "it is damaged; 'penstock store repair' saves what can be read"

_REASONS: Final = {
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_ERROR: DAMAGED,  # Our statements are valid, so a missing table means damage.
    sqlite3.SQLITE_BUSY: "another program is using it",
    sqlite3.SQLITE_LOCKED: "another program is using it",
    sqlite3.SQLITE_READONLY: "it may only be read; give its owner the right to write it, or another folder with --data",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; it and its folder must be readable and writable",
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
    sqlite3.SQLITE_TOOBIG: "a record is larger than the 1,000,000,000 bytes that SQLite takes",
}


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0 for an error of another kind."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file or its disk is the cause, and not the caller."""
    return code_of(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)


def damage_in(error: sqlite3.Error) -> str:
    """Return the text of an error that says that the file is damaged; raise any other error again."""
    if not is_damage(error):
        raise error
    return str(error)


def corruption() -> sqlite3.DatabaseError:
    """Return the error for a message of SQLite that cannot be decoded, because it quotes damaged text."""
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    error.sqlite_errorname = "SQLITE_CORRUPT"
    return error


def fault(error: sqlite3.Error, path: Path, doing: str, what: str = "the store") -> StoreError:
    """Return the exception to raise: StoreFull for a full disk, else StoreError.

    `doing` is "read", "write" or "open".
    """
    code = code_of(error)
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and doing != "read" and not _has_room(path)):
        return StoreFull(f"cannot {doing} {what} '{path}': there is no room left for it on its disk")
    if code == sqlite3.SQLITE_IOERR:
        name = getattr(error, "sqlite_errorname", "SQLITE_IOERR")
        return StoreError(f"cannot {doing} {what} '{path}': the disk fails ({name})")
    return StoreError(f"cannot {doing} {what} '{path}': {_REASONS.get(code, str(error))}")


def refused(error: OSError, path: Path, doing: str, what: str = "the store") -> StoreError:
    """Return the exception for an error of the operating system: StoreFull for a full disk, else StoreError."""
    kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
    return kind(f"cannot {doing} {what} '{path}': {error.strerror or error}")


@contextlib.contextmanager
def translated(path: Path, doing: str, what: str = "the store") -> Iterator[None]:
    """Raise the errors of SQLite and of the operating system as `fault` and `refused` return them."""
    try:
        yield
    except OSError as error:
        raise refused(error, path, doing, what) from None
    except sqlite3.Error as error:
        raise fault(error, path, doing, what) from None


def _has_room(path: Path) -> bool:
    try:
        system = os.statvfs(path.parent)
    except OSError:
        return True
    return system.f_bavail * system.f_frsize > NO_ROOM
