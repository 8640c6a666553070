"""SQLite store: implements `Store` in a file with a write-ahead log that is durable before a commit returns.

Theory of operation. A commit is one transaction. Records have fixed keys, so writing a record twice has no further
effect. When the outcome of a commit is unknown, the same commit is retried. The next transaction overwrites frames of a
failed transaction in the log; until then SQLite ignores them. SQLite's connection survives most failures; otherwise it
is opened again.

Each transaction is counted in the database, and then in a separate file, before it counts as committed. If that file
has counted more than the database, the log has lost transactions (commit_counter.py). Each opening is counted in the
database too, and each transaction checks for openings since. So if two brokers use one file, because the lock file was
removed, the first broker stops writing when the second has begun.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from penstock.errors import StoreError, StoreFull, StoreLost
from penstock.logs.ids import STORE_ODD
from penstock.logs.logger import log
from penstock.store import schema
from penstock.store.backup import copy
from penstock.store.commit_counter import CommitCounter, Count, count_transaction, missing, read_count
from penstock.store.data_file import PLACED_BYTES, DataFile
from penstock.store.directory import DataDirectory, Identity, identity_of
from penstock.store.faults import corruption, fault, is_damage, refused, translated
from penstock.store.page_index import PageIndex
from penstock.store.reading import Reading, read_piece_at
from penstock.store.records import (
    BodyPiece,
    Damage,
    MessageRow,
    MetadataRecord,
    Record,
    StoreTransaction,
    ignore,
    piece_key,
)
from penstock.store.salvage import judge, secure
from penstock.store.space import Reserve, Space, log_bytes, measure, room
from penstock.store.store import Store, Usage
from penstock.store.tables import (
    METADATA_RECORDS,
    PLACED_TABLES,
    POSITIONS,
    ROW_BODIES,
    ROWS,
    SETTLEMENTS,
    TABLES,
    Table,
    encoded,
    insertions,
)


def _insert(table: Table) -> str:
    """Return the statement that inserts or replaces a record."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in table.columns[1:])
    values = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} VALUES ({values}) ON CONFLICT ({table.key}) DO UPDATE SET {changes}"


INSERT: Final = {table.name: _insert(table) for table in TABLES}
DELETE_PAGES: Final = "DELETE FROM rows WHERE queue = ? AND queue > 0 AND first BETWEEN ? AND ?"
DELETE_BODIES_OF_PAGES: Final = (
    "DELETE FROM row_bodies WHERE number IN (SELECT number FROM rows WHERE queue = ? AND queue > 0 "
    "AND first BETWEEN ? AND ?)"
)
DELETE_PIECES: Final = "DELETE FROM pieces WHERE number BETWEEN ? AND ?"


def write(connection: sqlite3.Connection, commit: StoreTransaction, data: DataFile) -> None:
    """Write a commit, insertions first. Raises sqlite3.Error or OSError; the caller owns the transaction."""
    records: tuple[MessageRow | BodyPiece, ...] = (*commit.rows, *commit.pieces)
    large = [record for record in records if len(record.data) >= PLACED_BYTES]
    written = data.write(connection, [record.data for record in large]) if large else []
    places = dict(zip(map(id, large), written, strict=True))
    for table, new in insertions(commit):
        if new and table in PLACED_TABLES:
            columns = (table.write(record, places.get(id(record))) for record in new)
            connection.executemany(INSERT[table.name], columns)
        elif new:
            connection.executemany(INSERT[table.name], map(table.write, new))
    for record in commit.latest():
        _declare(connection, record)
    data.delete(connection, commit)
    _delete(connection, ROWS, commit.rows_gone)
    _delete(connection, ROW_BODIES, commit.rows_gone)
    if commit.pages_gone:
        connection.executemany(DELETE_BODIES_OF_PAGES, commit.pages_gone)
        connection.executemany(DELETE_PAGES, commit.pages_gone)
    for body, first, last in commit.pieces_gone:
        connection.execute(DELETE_PIECES, (piece_key(body, first), piece_key(body, last)))
    _delete(connection, SETTLEMENTS, commit.settlements_gone)
    _delete(connection, POSITIONS, commit.positions_gone)


def _delete(connection: sqlite3.Connection, table: Table, keys: Iterable[int]) -> None:
    if keys:
        connection.executemany(f"DELETE FROM {table.name} WHERE {table.key} = ?", ((key,) for key in keys))


def _declare(connection: sqlite3.Connection, record: MetadataRecord) -> None:
    """Write or delete a definition; an existing definition keeps its number in the order of declarations."""
    kind, key = encoded(record.kind), encoded(record.key)
    if record.data is None:
        connection.execute("DELETE FROM things WHERE kind = ? AND key = ?", (kind, key))
        return
    row = connection.execute("SELECT number FROM things WHERE kind = ? AND key = ?", (kind, key)).fetchone()
    if row is None:
        row = connection.execute("SELECT ifnull(max(number), 0) + 1 FROM things").fetchone()
    connection.execute(INSERT[METADATA_RECORDS.name], METADATA_RECORDS.write(row[0], kind, key, record.data))


FILE: Final = "messages.sqlite"
"""Name of the file in its data directory."""
CACHE_KIB: Final = 4 * 1024
"""Memory for pages.

Measured in transactions of 3 MiB, with 8, 4, 2 and 1 MiB, in milliseconds of CPU per MiB. Writing takes 2.7, 2.6, 3.1
and 3.1; reading back and deleting takes 1.7, 1.7, 2.0 and 2.1. In transactions of 8 MiB, with 8 and 4 MiB, writing
takes 2.9 and 3.1.
"""


OPEN_S: Final = 2.0
"""Seconds for which opening waits for a transaction of another process."""


class SqliteStore(Store):
    """Store of one data directory, which the caller has locked.

    With `held`, the lock is checked before each transaction, and disk space is reserved (space.py).
    """

    def __init__(self, directory: Path, held: DataDirectory | None = None) -> None:
        self.path = directory / FILE
        self._held = held
        self._counter = CommitCounter(directory)
        self._count = Count(0, 0)
        """Count of the database after the last accepted transaction."""
        self._opening: int = 0
        """Number of this process's opening of the file."""
        self._log = self.path.with_name(FILE + "-wal")
        self._data = DataFile(self.path)
        self._identities: tuple[Identity | None, Identity | None] = (None, None)
        """Identities of the open file and its log."""
        self.damaged = []
        self._space = Space(self.path)
        self._usage: Usage | None = None
        """Measured size; None after a change. An idle store is measured once a second."""
        self._reserve = None if held is None else Reserve(directory)
        self._connection: sqlite3.Connection | None = None
        self._is_open = False

    def __str__(self) -> str:
        """Return the path, for display."""
        return str(self.path.parent)

    # Open and close

    def open(self) -> None:
        """Open the file, and create or migrate it. Raises StoreError with one sentence."""
        try:
            self._open()
        except StoreFull:
            if self._reserve is None or not self._reserve.release():
                raise
            self._open()
        self._keep_room()

    def _open(self) -> None:
        with translated(self.path, "open"):
            if schema.recognise(self.path):
                judge(self.path)
                missing(self.path, self._counter)
            else:
                schema.make(self.path)
            connection = self._connect()
            try:
                connection.execute(f"PRAGMA busy_timeout = {OPEN_S * 1000:.0f}")
                schema.migrate(connection, self.path)
                connection.execute("PRAGMA busy_timeout = 0")
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                self._count, self._opening = read_count(connection)
                self._counter.open(self._count)
                self._identities = identity_of(self.path), identity_of(self._log)
                self._data = DataFile(self.path)
                with translated(self._data.path, "open"):
                    self._data.open(connection)
            except BaseException:
                connection.close()
                self._data.close()
                raise
        if mode != b"wal":
            connection.close()
            self._data.close()
            raise StoreError(
                f"cannot open the store '{self.path}': its file system does not support shared memory, which SQLite's "
                "log needs; name a folder on a local disk with --data"
            )
        self.damaged = []
        self._connection = connection
        self._is_open = True

    def close(self) -> None:
        """Close the file after writing back the log, if the disk permits."""
        was_open = self._is_open
        self._is_open = False
        self._disconnect()
        self._data.close()
        self._counter.close()
        if was_open and self._reserve is not None and self._held is not None:
            with contextlib.suppress(StoreError, OSError):  # Otherwise another broker uses the log now.
                self._held.keep()
                self._reserve.shrink()

    def _connect(self) -> sqlite3.Connection:
        """Return a connection with Penstock's settings. Raises sqlite3.Error or OSError."""
        secure(self.path)
        connection = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            connection.text_factory = bytes  # Damaged text may not be valid UTF-8.
            for pragma in (
                "synchronous = FULL",
                "fullfsync = ON",  # Only this setting is durable on macOS; elsewhere it has no effect.
                "checkpoint_fullfsync = ON",
                "secure_delete = OFF",  # Debian's default overwrites deleted data with zeros: twice the work.
                f"cache_size = -{CACHE_KIB}",
                f"wal_autocheckpoint = {log_bytes(self.path) // schema.PAGE_SIZE}",
                f"journal_size_limit = {2 * log_bytes(self.path)}",
            ):
                connection.execute(f"PRAGMA {pragma}")
        except UnicodeDecodeError:
            connection.close()
            raise corruption() from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _connected(self) -> sqlite3.Connection:
        """Return the connection, a new connection if the last was lost. Raises StoreError."""
        if self._connection is None:
            if not self._is_open:
                raise StoreError(f"the store '{self.path}' is not open")
            with translated(self.path, "open"):
                self._connection = self._connect()
                self._count, _ = read_count(self._connection)  # The last transaction may be durable.
                self._identities = self._identities[0], identity_of(self._log)
        return self._connection

    def _disconnect(self) -> None:
        self._changes()
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    # Reading

    def rows(self) -> Iterator[MessageRow]:
        """Return the rows, oldest first; rows that are pages come without their data (b"")."""
        met, pages, total = len(self.damaged), 0, 0
        for row in self._read(ROWS):
            if row.queue:
                pages += 1
                total += row.number + row.first
            yield row
        if len(self.damaged) == met:
            with translated(self.path, "write"):
                PageIndex(self._connected(), self.damaged, self._data.read).mend(pages, total)

    def pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        """Return the pages of a queue whose first sequence is this or a later one, in order."""
        with translated(self.path, "read"):
            return PageIndex(self._connected(), self.damaged, self._data.read).find(queue, first, most)

    def page_heads(self, queue: int, sequence: int, most: int) -> list[MessageRow]:
        """Return pages of a queue without their data, from the page that may contain a sequence on."""
        with translated(self.path, "read"):
            return PageIndex(self._connected(), self.damaged, self._data.read).heads(queue, sequence, most)

    def piece(self, body: int, at: int) -> bytes | None:
        """Return the data of a piece; None if it is missing or damaged."""
        with translated(self.path, "read"):
            piece, damage = read_piece_at(self._connected(), piece_key(body, at), self._data.read)
        if damage is not None and damage not in self.damaged:
            self.damaged.append(damage)
        return None if piece is None else piece.data

    def check(self, take: Callable[[Record], None] = ignore) -> list[Damage]:
        """Read everything, pages too, and return the damage. Raises StoreError for other errors."""
        connection = self._connected()
        damaged: list[Damage] = []
        try:
            for table in TABLES:
                for record in Reading(connection, table, damaged, self._data.read, with_data=True).records():
                    take(record)
            for (line,) in connection.execute("PRAGMA integrity_check(10)"):
                if line != b"ok":
                    damaged.append(Damage("the file", line.decode(errors="replace")))
        except sqlite3.Error as error:
            if not is_damage(error):
                raise fault(error, self.path, "read") from None
            damaged.append(Damage("the file", str(error)))
        return damaged

    def _read(self, table: Table) -> Iterator[Any]:
        with translated(self.path, "read"):
            yield from Reading(self._connected(), table, self.damaged, self._data.read).records()

    # Writing

    def commit(self, commit: StoreTransaction) -> None:
        """Write all changes; they are durable on return. Raises StoreFull or StoreError: the commit may be retried.

        Raises StoreLost if another broker uses the file.
        """
        try:
            self._commit(commit)
        except StoreFull:
            if not self._make_room():
                raise
            self._commit(commit)

    def _commit(self, commit: StoreTransaction) -> None:
        self._check_files()
        self._changes()
        connection = self._connected()
        count = self._count.plus(commit)
        try:
            connection.execute("BEGIN IMMEDIATE")
            if not count_transaction(connection, count, self._opening):
                raise self._opened_by_another()
            write(connection, commit, self._data)
            connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back(connection)
            if isinstance(error, sqlite3.Error):
                raise fault(error, self.path, "write") from None
            if isinstance(error, OSError):
                raise refused(error, self._data.path, "write", "the data file of the store") from None
            raise
        self._count = count
        try:
            self._counter.write(count)
        except OSError as error:
            raise refused(error, self._counter.path, "write", "the count of transactions") from None
        self._data.settle()
        if self._check_files() and not self._is_ours():
            raise self._opened_by_another()

    def _make_room(self) -> bool:
        """Free disk space: drop the reserve, write the log back and restart it. Return whether that may help.

        Raises StoreError.
        """
        if self._reserve is None:
            return False
        self._reserve.release()
        self._changes()
        connection = self._connected()
        try:
            busy, frames, written = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        except sqlite3.Error:
            return False
        return not busy and bool(frames == written)

    def _changes(self) -> None:
        """Record that the file or its log changes."""
        self._usage = None
        self._space.begin()

    def _keep_room(self) -> None:
        """Restore the reserve if the disk has room for it in addition to the store's needs. Raises StoreError."""
        if self._reserve is not None and self._reserve.missing():
            usage = self.usage()
            if usage.free is None or usage.free >= usage.needed:
                self._reserve.make()

    def _is_ours(self) -> bool:
        """Return whether no other process has opened the file. Raises StoreError."""
        with translated(self.path, "read"):
            return read_count(self._connected())[1] == self._opening

    def _opened_by_another(self) -> StoreLost:
        return StoreLost(
            f"another broker has opened the store '{self.path}', which this one was using: one of the two was "
            "started where no lock file stopped it; this one must stop"
        )

    def _check_files(self) -> bool:
        """Check that the lock is still held and the open files are still in place. Raises StoreLost or StoreError.

        Return whether the lock file was removed and restored: another broker may have used the store meanwhile.
        """
        if self._held is None:
            return False
        try:
            is_new = self._held.keep()
            identities = identity_of(self.path), identity_of(self._log)
            lost = None if self._data.is_in_place() else self._data.path
        except OSError as error:
            raise refused(error, self.path, "read") from None
        if identities[0] != self._identities[0]:
            lost = self.path
        if lost is not None:
            raise StoreLost(
                f"the store '{lost}' was removed or replaced while a broker used it; it must stop, for nothing "
                "that it writes would last"
            )
        if self._connection is not None and identities[1] != self._identities[1]:
            self._write_log_back(self._connection)
            return True
        return is_new

    def _write_log_back(self, connection: sqlite3.Connection) -> None:
        """Write back a log that was removed while open, which is still readable, and start a new one."""
        log(
            STORE_ODD, "the log '%s' was removed; what it held is written to the store, and another is begun", self._log
        )
        with translated(self.path, "write"):
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreError(f"the log '{self._log}' was removed, and another program still reads it")
        self._disconnect()

    def reclaim_space(self, idle: bool = True) -> bool:
        """Return some free pages to the file system; return whether there are more. Raises StoreError, StoreLost."""
        self._check_files()
        if not self._space.is_done:
            self._usage = None
            try:
                if self._data.reclaim(idle) or self._space.reclaim(self._connected(), idle):
                    return True
            except OSError as error:
                raise refused(error, self._data.path, "write", "the data file of the store") from None
            except sqlite3.Error as error:
                failure = fault(error, self.path, "write")
                if isinstance(failure, StoreFull) and self._make_room() and self._space.take_smaller_steps():
                    return True
                raise failure from None
        self._keep_room()
        return False

    def usage(self) -> Usage:
        """Return the present disk usage."""
        if self._usage is None:
            with translated(self.path, "read"):
                self._usage = measure(self._connected(), self.path, self._data.path, self._data.in_use())
        free, total = room(self.path.parent)
        missing = 0 if self._reserve is None else self._reserve.missing()
        return self._usage._replace(free=free, total=total, needed=self._usage.needed + missing)

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the store into an empty folder, in the calling thread, while another thread uses it.

        See `backup.copy`. Raises StoreError.
        """
        copy(self.path, target, progress)

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        """Roll back a failed transaction; drop the connection if even reading fails."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("SELECT count FROM sums").fetchall()
        except sqlite3.Error:
            self._disconnect()
