"""Schema of the SQLite store: creation, recognition and migrations.

Each schema version is a migration from the one before; a new file runs all of them. The migrations run in one
transaction, so a file always has one version or the next. `application_id` identifies a store of Penstock,
`user_version` is the schema version. The table `about` names the Penstock that opened the store last. The form of that
table never changes: a Penstock too old for the file must still be able to read it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from penstock.errors import StoreError
from penstock.store.commit_counter import CommitCounter
from penstock.store.directory import synchronise
from penstock.store.faults import DAMAGED, refused
from penstock.store.records import UNKNOWN
from penstock.store.tables import COMMITS, COMMITS_ID, FIRST_TABLES, PIECES, POSITIONS, ROW_BODIES, Table
from penstock.version import VERSION

APPLICATION: Final = int.from_bytes(b"Pnst", "big")
MAGIC: Final = b"SQLite format 3\x00"
PAGE_SIZE: Final = 8192
"""Page size.

Measured, microseconds of CPU for a commit with 4,096 / 8,192 / 16,384: 3,300 / 2,600 / 2,100 for 1 MiB; 490 / 420 / 400
for 100 KiB; 230 / 230 / 240 for 10 KiB, where the written bytes are 4.4 / 5.8 / 10.8 times the data.
"""

_ROW_COLUMNS: Final = """
    number INTEGER PRIMARY KEY, queue INTEGER NOT NULL, first INTEGER NOT NULL, messages INTEGER NOT NULL,
    size INTEGER NOT NULL, crc INTEGER NOT NULL, seal INTEGER NOT NULL, data BLOB NOT NULL
"""

Migration = Callable[[sqlite3.Connection], None]


def _first(connection: sqlite3.Connection) -> None:
    """Create the tables.

    The table of sums has for each table the number of records, the sum of their checksums and the highest key ever
    used. The sums reveal lost records and tables in an older state, even if every remaining record is intact.
    """
    for statement in (
        "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE sums (id INTEGER PRIMARY KEY, name TEXT NOT NULL, count INTEGER NOT NULL, sum INTEGER NOT NULL, "
        "last INTEGER NOT NULL)",
        f"CREATE TABLE rows ({_ROW_COLUMNS})",
        "CREATE INDEX pages ON rows (queue, first) WHERE queue > 0",
        "CREATE TABLE notes (number INTEGER PRIMARY KEY, seal INTEGER NOT NULL, data BLOB NOT NULL)",
        "CREATE TABLE things (number INTEGER PRIMARY KEY, kind BLOB NOT NULL, key BLOB NOT NULL, "
        "seal INTEGER NOT NULL, data BLOB NOT NULL)",
        "CREATE INDEX thing ON things (kind, key)",
        "CREATE TABLE positions (queue INTEGER PRIMARY KEY, tail INTEGER NOT NULL, delivered INTEGER NOT NULL, "
        "seal INTEGER NOT NULL)",
    ):
        connection.execute(statement)
    for table in FIRST_TABLES:
        connection.execute("INSERT INTO sums VALUES (?, ?, 0, 0, 0)", (table.id, table.name))
        _sum_up(connection, table)


def _sum_up(connection: sqlite3.Connection, table: Table) -> None:
    """Create triggers that update the table of sums on changes of another table."""
    for event, change in (
        ("INSERT", f"count = count + 1, sum = sum + new.seal, last = max(last, new.{table.key})"),
        ("UPDATE", "sum = sum + new.seal - old.seal"),
        ("DELETE", "count = count - 1, sum = sum - old.seal"),
    ):
        connection.execute(
            f"CREATE TRIGGER {table.name}_{event.lower()} AFTER {event} ON {table.name} "
            f"BEGIN UPDATE sums SET {change} WHERE id = {table.id}; END"
        )


def _second(connection: sqlite3.Connection) -> None:
    """Add the number of messages to positions.

    Older positions lack the number and keep their checksums, so the sums do not change.
    """
    for statement in (
        "CREATE TEMP TABLE uncounted AS SELECT queue, tail, delivered, seal FROM positions",
        "DROP TABLE positions",
        "CREATE TABLE positions (queue INTEGER PRIMARY KEY, tail INTEGER NOT NULL, delivered INTEGER NOT NULL, "
        "messages INTEGER NOT NULL, seal INTEGER NOT NULL)",
        f"INSERT INTO positions SELECT queue, tail, delivered, {UNKNOWN}, seal FROM uncounted",
        "DROP TABLE uncounted",
    ):
        connection.execute(statement)
    _sum_up(connection, POSITIONS)


def _third(connection: sqlite3.Connection) -> None:
    """Add the counts of transactions, their messages and openings to the table of sums.

    The page of that table is written with every transaction anyway.
    """
    connection.execute("INSERT INTO sums VALUES (?, ?, 0, 0, 0)", (COMMITS_ID, COMMITS))


def _fourth(connection: sqlite3.Connection) -> None:
    """Add the tables for the bodies of large messages."""
    for statement in (
        "CREATE TABLE pieces (number INTEGER PRIMARY KEY, body INTEGER NOT NULL, size INTEGER NOT NULL, "
        "crc INTEGER NOT NULL, seal INTEGER NOT NULL, data BLOB NOT NULL)",
        "CREATE TABLE row_bodies (number INTEGER PRIMARY KEY, bodies INTEGER NOT NULL, seal INTEGER NOT NULL, "
        "data BLOB NOT NULL)",
    ):
        connection.execute(statement)
    for table in (PIECES, ROW_BODIES):
        connection.execute("INSERT INTO sums VALUES (?, ?, 0, 0, 0)", (table.id, table.name))
        _sum_up(connection, table)


def _fifth(connection: sqlite3.Connection) -> None:
    """Allow a place in the data file instead of the data of a row or piece; the tables do not change."""


MIGRATIONS: Final[tuple[Migration, ...]] = (_first, _second, _third, _fourth, _fifth)
"""Migrations: the first creates version 1, the second makes version 2 of version 1, and so on.

A migration recreates a table instead of altering it: the statements of a file are compared with those of a new file,
and SQLite rewrites the statements of altered tables.
"""


def recognise(path: Path) -> bool:
    """Inspect the file before it is opened; return whether it exists.

    Raises StoreError if it belongs to another program, cannot be read, or is missing although its log exists.
    """
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        if path.with_name(path.name + "-wal").exists():
            raise StoreError(
                f"the store '{path}' is missing, but its log is there: restore the file, or remove '{path}-wal'"
            ) from None
        _refuse_if_counted(path)
        return False
    except OSError as error:
        raise refused(error, path, "open") from None
    if len(head) < 100 or not head.startswith(MAGIC):
        raise StoreError(
            f"'{path}' is not a store of Penstock: it does not begin as a SQLite database does; if it was one, "
            "'penstock store repair' saves what can be read"
        )
    application = int.from_bytes(head[68:72], "big")
    if application != APPLICATION:
        raise StoreError(
            f"'{path}' is not a store of Penstock but a SQLite database of another program (application id "
            f"{application}); name another folder with --data"
        )
    return True


def _refuse_if_counted(path: Path) -> None:
    counter = CommitCounter(path.parent)
    count = counter.read()
    if count is not None and count.transactions:
        raise StoreError(
            f"the store '{path}' is missing, with the {count.transactions:,} transactions that it had: restore the "
            f"file, or remove '{counter.path}' to begin with nothing"
        )


def make(path: Path) -> None:
    """Create the file with the present tables. Raises sqlite3.Error or OSError."""
    with making(path) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        migrate(connection, path)


@contextlib.contextmanager
def making(path: Path) -> Iterator[sqlite3.Connection]:
    """Create a database under another name until it is complete, so that a short file is always a truncated one.

    The file has a write-ahead log from the start, and never a rollback journal under its own name. On some file systems
    a power failure could leave such a journal beside a log, and the file would be refused. Raises sqlite3.Error or
    OSError.
    """
    part = path.with_name(path.name + ".new")
    for end in ("", "-journal", "-wal", "-shm"):
        part.with_name(part.name + end).unlink(missing_ok=True)
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        yield connection
        connection.execute("PRAGMA journal_mode = WAL")
    part.rename(path)
    synchronise(path.parent)


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Run the missing migrations, record the opener, and count the opening.

    Raises StoreError if the file is too new.
    """
    newest = len(migrations)
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version < 0:
            raise StoreError(f"cannot open the store '{path}': {DAMAGED}")
        if version > newest:
            newer = _opened_by(connection)
            raise StoreError(
                f"the store '{path}' was last opened by Penstock {newer} and has schema version {version}; "
                f"Penstock {VERSION} reads up to version {newest}: start Penstock {newer} or a newer one"
            )
        for migrate in migrations[version:]:
            migrate(connection)
        if not _statements(connection) >= _expected(tuple(migrations)):
            raise StoreError(f"cannot open the store '{path}': {DAMAGED}")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("UPDATE sums SET last = last + 1 WHERE id = ?", (COMMITS_ID,))
        connection.execute(
            "INSERT INTO about VALUES ('penstock', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (VERSION,),
        )
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@lru_cache(maxsize=1)
def _expected(migrations: tuple[Migration, ...]) -> frozenset[tuple[bytes, ...]]:
    """Return the statements of a new store, which are found by creating one."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        for migrate in migrations:
            migrate(fresh)
        return frozenset(_statements(fresh))


def _statements(connection: sqlite3.Connection) -> set[tuple[bytes, ...]]:
    """Return the statements that create tables, indexes and triggers.

    A flipped bit in a statement would change its effect.
    """
    columns = ", ".join(f"CAST({name} AS BLOB)" for name in ("type", "name", "tbl_name", "sql"))
    return set(connection.execute(f"SELECT {columns} FROM sqlite_master"))


def _opened_by(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT value FROM about WHERE name = 'penstock'").fetchone()
    return row[0].decode(errors="replace") if row else "of an unknown version"
