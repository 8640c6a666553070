"""Count of durable transactions, outside of the database and its write-ahead log.

SQLite accepts the longest valid beginning of a log. If a log is deleted, truncated at a frame border or damaged in its
last transaction, SQLite sees a shorter valid log, and confirmed data is lost without an error. Therefore the database
counts its transactions (row `commits` of the table of sums), and a separate file holds the same count. The file is
written and synchronised after the log, and before a transaction is reported as durable. So every confirmed transaction
is counted, and a power failure never leaves the file ahead of the log. A database that is behind the count has lost
transactions. A database that is ahead was interrupted between the two writes.

The file has two slots in separate blocks, which are overwritten alternately. A torn write leaves the previous count
valid, and synchronising touches no metadata.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import struct
import sys
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from penstock.errors import StoreError
from penstock.store.directory import synchronise
from penstock.store.faults import DAMAGED
from penstock.store.records import StoreTransaction
from penstock.store.tables import COMMITS_ID

COUNTER_FILE: Final = "messages.commits"
"""Name of the file in its data directory; unlike the log's name, so that a pattern that removes the log does not
match.
"""
SLOT_BYTES: Final = 4096
SLOT: Final = struct.Struct("<8sQQI")
MAGIC: Final = b"PnstCmt1"
LARGEST: Final = (1 << 63) - 1
"""Largest integer in SQLite."""


class Count(NamedTuple):
    """Totals of all transactions since the store was created."""

    transactions: int
    messages: int
    """Messages written by these transactions, present or deleted."""

    def plus(self, commit: StoreTransaction) -> Count:
        """Return the totals including this transaction."""
        messages = self.messages + sum(row.messages for row in commit.rows)
        return Count(self.transactions + 1, min(messages, LARGEST))


class CommitCounter:
    """Counter file of one data directory. `read` and `make` work without `open`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / COUNTER_FILE
        self._number: int | None = None
        self._slot: int = 0
        """Slot of the last count that is certainly durable; the next count goes into the other slot."""

    def read(self) -> Count | None:
        """Return the higher count of the two slots; None without a file. Raises StoreError if the file is damaged."""
        try:
            octets = self.path.read_bytes()
        except FileNotFoundError:
            return None
        counts = [_decoded(octets), _decoded(octets[SLOT_BYTES:])]
        highest = max((count for count in counts if count is not None), default=None)
        if highest is None:
            raise StoreError(
                f"the count of transactions '{self.path}' is damaged, so it is unknown whether the store beside it is "
                "complete; remove that file to start with the present contents"
            )
        self._slot = counts.index(highest)
        return highest

    def make(self, count: Count) -> None:
        """Create or replace the file, under another name until it is complete. Raises OSError."""
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
        """Open the file with the count of the database, which is not behind. Raises OSError."""
        self.close()
        known = self.read()
        if known is None:
            self.make(count)
        self._number = os.open(self.path, os.O_RDWR)
        if known is not None and known != count:
            self.write(count)

    def write(self, count: Count) -> None:
        """Write a count and synchronise it. Raises OSError; the previous count stays valid then."""
        assert self._number is not None
        other = 1 - self._slot
        os.pwrite(self._number, _encoded(count), other * SLOT_BYTES)
        flush(self._number)
        self._slot = other

    def close(self) -> None:
        """Close the file."""
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


def flush(number: int) -> None:
    """Synchronise the data of a file, and its length if that has changed. Raises OSError."""
    if sys.platform == "darwin":
        fcntl.fcntl(number, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(number)


def read_count(connection: sqlite3.Connection) -> tuple[Count, int]:
    """Return the count of a database and the number of its openings; zeros for an older schema.

    Raises sqlite3.Error, also if the database has no such number.
    """
    row = connection.execute("SELECT count, sum, last FROM sums WHERE id = ?", (COMMITS_ID,)).fetchone()
    if row is None:
        return Count(0, 0), 0
    if not all(type(value) is int and value >= 0 for value in row):
        raise sqlite3.DatabaseError(DAMAGED)
    return Count(*row[:2]), row[2]


def count_transaction(connection: sqlite3.Connection, count: Count, opening: int) -> bool:
    """Count a transaction within it; return whether no other process opened the database. Raises sqlite3.Error."""
    statement = "UPDATE sums SET count = ?, sum = ? WHERE id = ? AND last = ?"
    return connection.execute(statement, (*count, COMMITS_ID, opening)).rowcount == 1


def count_in(path: Path) -> Count:
    """Return the count of an unused database, from its file and its log. Raises sqlite3.Error.

    The call changes neither, and creates no files.
    """
    log = path.with_name(path.name + "-wal")
    mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        return read_count(connection)[0]


def missing(path: Path, counter: CommitCounter) -> None:
    """Reject a database that is behind its counter file: raises StoreError, or sqlite3.Error if unreadable."""
    known = counter.read()
    if known is None:
        return
    counted = count_in(path)
    if counted.transactions < known.transactions:
        raise StoreError(
            f"the store '{path}' has lost {lost_transactions(known, counted)}: its log '{path.name}-wal' was removed, "
            "cut off or damaged at its end, or an older copy was put in its place; restore the original files, or "
            "accept the loss: 'penstock store repair' saves what is left in a new folder"
        )


def lost_transactions(known: Count, counted: Count) -> str:
    """Describe the transactions that a database lacks."""
    transactions = known.transactions - counted.transactions
    messages = known.messages - counted.messages
    what = "transaction" if transactions == 1 else f"{transactions:,} transactions"
    brought = "no message" if messages <= 0 else "1 message" if messages == 1 else f"{messages:,} messages"
    return f"the last {what} of {known.transactions:,}, which brought {brought}"
