"""Errors of a spool, each one sentence; the reader raises them in Spark's driver under the same names."""

import errno
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SpoolError(PenstockError):
    """Spool that cannot be used or read, or a broker that refuses it; `kind` is stable and for programs."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return self.text


class DiskFull(PenstockError):
    """Failed write without room on the disk; the spool is unchanged, and another attempt may succeed."""


def raise_if_full(error: OSError, path: Path) -> None:
    """Raise `DiskFull` if the system reports a full disk."""
    if error.errno in _FULL:
        raise DiskFull(f"the disk of the spool {path} has no room: {error.strerror}") from error
