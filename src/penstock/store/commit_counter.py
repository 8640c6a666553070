"""The count of durable transactions, kept outside of the database and its write-ahead log.

SQLite takes from a log what hangs together from its beginning. A log that was deleted, cut at the border of a frame or
damaged in its last transaction is, for SQLite, a shorter log in good order, and what was confirmed is missing without
a word. So the database counts its transactions (row `commits` of the table of sums), and a file of its own has the same
count. It is written and synchronised after the log was synchronised, and before anybody is told that the transaction is
durable: every confirmed transaction is covered, and a power failure never leaves a count that is ahead of the log. A
database that is behind the count has lost transactions; one that is ahead was interrupted between the two writes.

The file has two slots, each in a block of its own, which are written in turn and in place: a write that a power failure
tears leaves the count before it, and synchronising touches no metadata.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from penstock.errors import StoreError
from penstock.store.directory import synchronise
from penstock.store.records import StoreTransaction

COUNTER_FILE: Final = "messages.commits"
"""The file's name in its data directory; it does not begin as the log's does, which people remove by a pattern."""
SLOT_BYTES: Final = 4096
SLOT: Final = struct.Struct("<8sQQI")
MAGIC: Final = b"PnstCmt1"
LARGEST: Final = (1 << 63) - 1
"""The largest number that SQLite has."""


class Count(NamedTuple):
    """What was committed since the store was made."""

    transactions: int
    messages: int
    """How many messages these transactions brought, whether they are still there or not."""

    def plus(self, commit: StoreTransaction) -> Count:
        """Return the count with this transaction."""
        messages = self.messages + sum(row.messages for row in commit.rows)
        return Count(self.transactions + 1, min(messages, LARGEST))


class CommitCounter:
    """The file of one data directory; `read` and `make` need not open it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / COUNTER_FILE
        self._number: int | None = None
        self._slot: int = 0
        """Where the last count stands that is certainly on the disk; the next goes into the other slot."""

    def read(self) -> Count | None:
        """Return the highest count in the file; None if there is no file. Raises StoreError if it is damaged."""
        try:
            octets = self.path.read_bytes()
        except FileNotFoundError:
            return None
        counts = [_decoded(octets), _decoded(octets[SLOT_BYTES:])]
        highest = max((count for count in counts if count is not None), default=None)
        if highest is None:
            raise StoreError(
                f"the count of transactions '{self.path}' is damaged, so nobody can say whether the store beside it is "
                "whole; remove that file to start with what is there"
            )
        self._slot = counts.index(highest)
        return highest

    def make(self, count: Count) -> None:
        """Make the file, or make it anew, under another name until it is whole. Raises OSError."""
        part = self.path.with_name(self.path.name + ".new")
        slot = _encoded(count).ljust(SLOT_BYTES, b"\x00")
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.pwrite(number, slot + slot, 0)
        finally:
            os.close(number)
        synchronise(part)
        part.rename(self.path)
        synchronise(self.path.parent)

    def open(self, count: Count) -> None:
        """Begin with this count, that of the database, which is not behind. Raises OSError."""
        self.close()
        known = self.read()
        if known is None:
            self.make(count)
        self._number = os.open(self.path, os.O_RDWR)
        if known is not None and known != count:
            self.write(count)

    def write(self, count: Count) -> None:
        """Have a count on the disk. Raises OSError; the one before it is still there then."""
        assert self._number is not None
        other = 1 - self._slot
        os.pwrite(self._number, _encoded(count), other * SLOT_BYTES)
        _flush(self._number)
        self._slot = other

    def close(self) -> None:
        """Let go of the file."""
        if self._number is not None:
            os.close(self._number)
            self._number = None


def _encoded(count: Count) -> bytes:
    octets = SLOT.pack(MAGIC, *count, 0)[:-4]
    return octets + struct.pack("<I", zlib.crc32(octets))


def _decoded(octets: bytes) -> Count | None:
    if len(octets) < SLOT.size:
        return None
    magic, transactions, messages, _ = SLOT.unpack_from(octets)
    count = Count(transactions, messages)
    return count if magic == MAGIC and octets[: SLOT.size] == _encoded(count) else None


def _flush(number: int) -> None:
    """Have on the disk what was written to a file; its length has not changed. Raises OSError."""
    if sys.platform == "darwin":
        fcntl.fcntl(number, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(number)
