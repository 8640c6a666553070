"""Data file of a SQLite store: the data of large rows and pieces, beside the database.

Theory of operation. SQLite writes everything twice, page by page: into its log, and later into its file. Data of
`PLACED_BYTES` and more is written once, into blocks of this file that no record uses. The file is synchronised before
the transaction that refers to the data is committed. The record has the *place* of the data, its first block and
length, in the column of small data.

The blocks of a deleted record are free when the transaction that deletes it is durable. No list of free blocks is
stored: at the start, the blocks in use are found from the places in the database. A backup holds a shared lock (flock)
on the file. A backup reads an earlier state of the database, so blocks freed since then are not reused until no backup
runs.

A transaction that fails keeps its places. A retry writes the same data to the same places. So no data is lost if the
failed attempt was durable after all.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import sys
from pathlib import Path
from typing import Final

from penstock.errors import StoreError
from penstock.store.commit_counter import flush
from penstock.store.directory import Identity, identity_of, synchronise
from penstock.store.reading import places_in
from penstock.store.records import StoreTransaction, piece_key
from penstock.store.space import FREE_BEGIN, Surplus, share
from penstock.store.tables import LENGTH_MASK, PIECES, ROWS, ChecksumError, Table, length_of

DATA_FILE: Final = "messages.data"
"""Name of the file in its data directory."""
PLACED_BYTES: Final = 65536
"""Least bytes of data in this file.

Measured, microseconds of CPU for a transaction of one row of 32 KiB, 64 KiB, 128 KiB and 1 MiB: 330, 450, 660 and 3,600
in the database; 340, 430, 520 and 1,310 with the data in this file.
"""
BLOCK: Final = 16384
"""Bytes of a block; each block takes a byte in memory."""
HOLES_A_STEP: Final = 64
RETURNED_A_STEP: Final = 16 * 1024 * 1024
"""Most runs of free blocks, and most bytes, returned to the file system per step: some milliseconds on ext4."""
PUNCH_HOLE: Final = 0x01 | 0x02
"""Mode of Linux's fallocate: keep the length, and make a hole."""


def _placed(table: Table, where: str) -> str:
    return f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE {where} AND typeof(data) = 'integer'"


ROW_WITH: Final = _placed(ROWS, "number = ?")
PAGES_WITH: Final = _placed(ROWS, "queue = ? AND queue > 0 AND first BETWEEN ? AND ?")
PIECES_WITH: Final = _placed(PIECES, "number BETWEEN ? AND ?")


def begin_of(place: int) -> int:
    """Return the position of a place in the file, in bytes."""
    return (place >> LENGTH_MASK.bit_length()) * BLOCK


def _blocks(octets: int) -> int:
    return (octets + BLOCK - 1) // BLOCK


class DataFile:
    """Data file beside one database; created when there is data to write."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(DATA_FILE)
        self._number: int | None = None
        self._identity: Identity | None = None
        self._used = bytearray()
        """For each block, 1 if it is in use, else 0."""
        self._places: list[int] = []
        """Places of the transaction that is being written, or has failed."""
        self._gone: set[int] = set()
        """Places of the records that the transaction deletes."""
        self._unread: list[int] = []
        """Places of deleted records that a backup may read."""
        self._frees = True
        """False if the database is damaged: data that a repair may save is not freed."""
        self._surplus = Surplus()
        self._returning = False
        """True while free blocks are returned, step by step."""
        self._hole: int = 0
        """Block at which the return of free blocks continues."""

    def open(self, connection: sqlite3.Connection) -> None:
        """Open the file if there is one, and find the blocks in use; all, if the database is damaged.

        Raises StoreError if the file is missing, OSError or sqlite3.Error.
        """
        try:
            number = os.open(self.path, os.O_RDWR)
        except FileNotFoundError:
            if connection.execute("SELECT 1 FROM about WHERE name = 'data'").fetchone() is not None:
                raise StoreError(
                    f"the data file '{self.path}' of the store is missing: restore the file; 'penstock store repair' "
                    "saves the rest"
                ) from None
            return
        self._take(number)
        places = places_in(connection)
        self._used = bytearray(_blocks(os.fstat(number).st_size))
        self._frees = places is not None
        if places is None:
            self._used = bytearray(b"\x01" * len(self._used))
        for place in places or ():
            self._mark(place, 1)

    def open_for_reading(self) -> None:
        """Open the file to read it only; without a file, each place is missing. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            self._number = os.open(self.path, os.O_RDONLY)

    def close(self) -> None:
        """Close the file."""
        if self._number is not None:
            os.close(self._number)
            self._number = None

    def is_in_place(self) -> bool:
        """Return whether the file still has its name. Raises OSError if that is unknown."""
        return self._number is None or identity_of(self.path) == self._identity

    # Data

    def read(self, place: int) -> bytes:
        """Return the data at a place; less if the file ends before. Raises OSError."""
        if self._number is None:
            raise FileNotFoundError(errno.ENOENT, f"'{self.path.name}' is missing")
        return os.pread(self._number, length_of(place), begin_of(place))

    def write(self, connection: sqlite3.Connection, parts: list[bytes]) -> list[int]:
        """Write data and synchronise it, within a transaction; return the places. Raises OSError or sqlite3.Error."""
        if self._number is None:
            self._take(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            synchronise(self.path.parent)
        assert self._number is not None
        connection.execute("INSERT OR IGNORE INTO about VALUES ('data', ?)", (DATA_FILE,))
        self._release()
        places = self._places
        for index, data in enumerate(parts):
            if index < len(places) and length_of(places[index]) != len(data):
                del places[index:]  # Of another, failed transaction: its blocks stay until the next start.
            if index == len(places):
                places.append(self._allocate(len(data)))
            rest, at = memoryview(data), begin_of(places[index])
            while rest:
                written = os.pwrite(self._number, rest, at)
                rest, at = rest[written:], at + written
        flush(self._number)
        return places

    def delete(self, connection: sqlite3.Connection, commit: StoreTransaction) -> None:
        """Find the places of the records that a transaction is about to delete. Raises sqlite3.Error."""
        self._gone.clear()
        if self._used.find(1) < 0:
            return
        for number in commit.rows_gone:
            self._find(ROWS, connection.execute(ROW_WITH, (number,)))
        for pages in commit.pages_gone:
            self._find(ROWS, connection.execute(PAGES_WITH, pages))
        for body, first, last in commit.pieces_gone:
            self._find(PIECES, connection.execute(PIECES_WITH, (piece_key(body, first), piece_key(body, last))))

    def settle(self) -> None:
        """Record that the transaction is durable."""
        self._places = []
        if self._frees:
            self._unread += self._gone

    def _find(self, table: Table, found: sqlite3.Cursor) -> None:
        for columns in found:
            with contextlib.suppress(ChecksumError):  # The blocks of a damaged record stay until the next start.
                table.read(columns)
                self._gone.add(columns[-1])

    # Blocks

    def in_use(self) -> int:
        """Return the bytes of all blocks in use."""
        return self._used.count(1) * BLOCK

    def reclaim(self, idle: bool) -> bool:
        """Return some free blocks to the file system; return whether there are more. Raises OSError.

        Like the return of free pages, it begins when more than a quarter and more than 16 MiB are free.
        """
        if self._number is None:
            return False
        self._release()
        status = os.fstat(self._number)
        if not self._returning:
            taken = status.st_blocks * 512
            free = taken - self.in_use()
            if not self._surplus.is_due(free > FREE_BEGIN * share(self.path.parent) and free * 4 > taken, idle):
                return False
            self._used = self._used.rstrip(b"\x00")
            self._returning = True
            self._hole = 0
        end = len(self._used) * BLOCK
        if status.st_size > end:
            os.ftruncate(self._number, max(end, status.st_size - RETURNED_A_STEP))
            return True
        self._returning = self._punch_holes(self._number)
        return self._returning

    def _punch_holes(self, number: int) -> bool:
        """Return the free blocks of some runs; return whether there are more."""
        left = RETURNED_A_STEP // BLOCK
        for _ in range(HOLES_A_STEP):
            begin = self._used.find(0, self._hole)
            stop = self._used.find(1, begin) if begin >= 0 else -1
            if stop < 0:
                return False
            stop = min(stop, begin + left)
            if not _punch(number, begin * BLOCK, (stop - begin) * BLOCK):
                return False
            self._hole = stop
            left -= stop - begin
            if left == 0:
                break
        return True

    def _take(self, number: int) -> None:
        self._number = number
        status = os.fstat(number)
        self._identity = status.st_dev, status.st_ino

    def _allocate(self, octets: int) -> int:
        """Return a place for data: the first free place, otherwise at the end."""
        count = _blocks(octets)
        begin = self._used.find(bytes(count))
        if begin < 0:
            begin = len(self._used)
            while begin and not self._used[begin - 1]:
                begin -= 1
        place = begin << LENGTH_MASK.bit_length() | octets
        self._mark(place, 1)
        return place

    def _mark(self, place: int, value: int) -> None:
        begin, count = begin_of(place) // BLOCK, _blocks(length_of(place))
        self._used.extend(bytes(max(0, begin + count - len(self._used))))
        self._used[begin : begin + count] = bytes([value]) * count

    def _release(self) -> None:
        """Make the blocks of deleted records free, unless a backup runs."""
        if not self._unread or self._number is None:
            return
        try:
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        fcntl.flock(self._number, fcntl.LOCK_UN)
        for place in self._unread:
            self._mark(place, 0)
        self._unread.clear()


def _punch(number: int, begin: int, octets: int) -> bool:
    """Return a part of a file to the file system; return whether the file system supports that.

    The part then reads as zeros.
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes  # Few brokers have so many blocks to return, and the buffer takes a megabyte of memory.

    libc = ctypes.CDLL(None, use_errno=True)
    length = ctypes.c_int64
    return bool(libc.fallocate(number, PUNCH_HOLE, length(begin), length(octets)) == 0)
