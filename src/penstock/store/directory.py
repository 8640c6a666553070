"""The data directory: one broker at a time may hold it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from penstock.errors import StartError


class DataDirectory:
    """A directory with a lock file that says which process holds it.

    The lock ends with the process, however that ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def lock(self) -> None:
        """Make the directory if needed and take it.

        Raises StartError if another broker holds it or it cannot be used.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StartError(f"cannot use data directory '{self.path}': {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise StartError(f"data directory '{self.path}' is in use by another broker (process {holder})") from None
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        self._lock = lock

    def unlock(self) -> None:
        """Let go of the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
