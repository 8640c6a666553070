"""Data directory and its lock: one broker at a time may use it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from pathlib import Path
from typing import Final

from penstock.errors import StartError, StoreError, StoreLost
from penstock.logs.ids import STORE_ODD
from penstock.logs.logger import log

SYSTEM: Path = Path("/var/lib/penstock")
"""Default data directory of a broker started by root."""
TAKES: Final = 10
"""Attempts to take a lock file that is removed meanwhile."""

Identity = tuple[int, int]
"""Device and inode of a file."""


def default_directory() -> Path:
    """Return the default data directory: a folder of the user, or of the system for root.

    On macOS ~/Library/Application Support/Penstock. Elsewhere /var/lib/penstock for root (Filesystem Hierarchy
    Standard). For other users penstock in $XDG_DATA_HOME, or in ~/.local/share if that is unset or not absolute (XDG
    Base Directory Specification). Raises StartError for a user without a home.
    """
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "Penstock"
        if os.geteuid() == 0:
            return SYSTEM
        data_home = Path(os.environ.get("XDG_DATA_HOME", ""))
        return (data_home if data_home.is_absolute() else Path.home() / ".local" / "share") / "penstock"
    except RuntimeError:
        raise StartError("no folder for data is known: this user has no home; name one with --data") from None


class DataDirectory:
    """Directory with a lock file that names the holding process.

    The operating system releases the lock when the process ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._lock_path = path / "lock"
        self._identity: Identity | None = None
        """Identity of the locked file."""

    def lock(self) -> None:
        """Create the directory if needed, for its owner alone, and lock it.

        Raises StartError if another broker holds it or it cannot be used.
        """
        try:
            self._make()
            if os.statvfs(self.path).f_flag & os.ST_RDONLY:
                raise StartError(
                    f"cannot use data directory '{self.path}': its file system may only be read; "
                    "have it mounted for writing, or name another with --data"
                )
            rights = os.R_OK | os.W_OK | os.X_OK
            if not os.access(self.path, rights, effective_ids=os.access in os.supports_effective_ids):
                raise StartError(
                    f"cannot use data directory '{self.path}': it may not be written by this user; "
                    "give its owner the right to, or name another with --data"
                )
            self._take(os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StartError(f"cannot use data directory '{self.path}': {error.strerror}") from None
        self._sign()

    def hold(self) -> None:
        """Lock the directory without writing: its disk may be read-only or full.

        Raises StartError if it does not exist or a broker holds it.
        """
        try:
            self._take(os.O_RDONLY)
        except FileNotFoundError:
            if not self.path.is_dir():
                raise StartError(f"there is no data directory '{self.path}'") from None
        except OSError as error:
            raise StartError(f"cannot use data directory '{self.path}': {error.strerror}") from None

    def keep(self) -> bool:
        """Check that the lock file is the locked file; if it was removed, lock it again.

        Return whether it was removed: another broker may have used the directory meanwhile. Raises StoreLost if another
        broker has the lock now or the directory is gone, and StoreError or OSError if neither can be determined.
        """
        if self._lock is not None and identity_of(self._lock_path) == self._identity:
            return False
        held = self._lock
        try:
            self._take(os.O_RDWR | os.O_CREAT)
        except StartError as taken:
            raise StoreLost(f"{taken}: its lock file was removed while this one held it; this one must stop") from None
        except (FileNotFoundError, NotADirectoryError):
            raise StoreLost(f"data directory '{self.path}' was removed while a broker used it; it must stop") from None
        except OSError as error:
            raise StoreError(f"cannot use data directory '{self.path}': {error.strerror}") from None
        if held is not None:
            os.close(held)
        self._sign()
        log(STORE_ODD, "the lock file of data directory '%s' was removed, and is taken again", self.path)
        return True

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _make(self) -> None:
        missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in missing:  # The folder's entry is durable only after its parent is synchronised.
            synchronise(path.parent)

    def _sign(self) -> None:
        """Write the holder into the lock file. On a full disk this fails silently; the lock still holds."""
        assert self._lock is not None
        with contextlib.suppress(OSError):
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def _take(self, flags: int) -> None:
        """Lock the lock file, then check that its name still refers to it. Raises StartError and OSError."""
        for _ in range(TAKES):
            lock = os.open(self._lock_path, flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
                os.close(lock)
                raise StartError(
                    f"data directory '{self.path}' is in use by another broker (process {holder})"
                ) from None
            status = os.fstat(lock)
            self._identity = status.st_dev, status.st_ino
            if identity_of(self._lock_path) == self._identity:
                self._lock = lock
                return
            os.close(lock)
        raise StartError(f"cannot use data directory '{self.path}': its lock file is removed again and again")


def identity_of(path: Path) -> Identity | None:
    """Return device and inode of the file at a path; None if there is none. Raises OSError if that is unknown."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def synchronise(path: Path) -> None:
    """Synchronise a folder's entries or a file's contents. Raises OSError."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
