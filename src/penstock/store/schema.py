"""The form of the store's file: made, recognised, brought up to date.

Each version of the form is a migration from the one before; a new file has gone through all of them. They run in one
transaction, so a file is of one version or of the next, whatever happens meanwhile. `application_id` says that it is a
store of Penstock, `user_version` which version of the form it has; the table `about` says which Penstock was the last
to open it, and never changes its own form: a Penstock that is too old for the file must still be able to read that.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import penstock
from penstock.errors import StoreError
from penstock.store.commit_counter import CommitCounter
from penstock.store.directory import synchronise
from penstock.store.faults import DAMAGED, refused
from penstock.store.records import COMMITS, UNKNOWN
from penstock.store.tables import POSITIONS, TABLES, Table

APPLICATION: Final = int.from_bytes(b"Pnst", "big")
MAGIC: Final = b"SQLite format 3\x00"
PAGE_SIZE: Final = 8192
"""Measured, microseconds of CPU for a commit with 4,096 / 8,192 / 16,384: 3,300 / 2,600 / 2,100 for 1 MiB; 490 / 420 /
400 for 100 KiB; 230 / 230 / 240 for 10 KiB, of which they write 4.4 / 5.8 / 10.8 times as much."""

COMMITS_ID: Final = len(TABLES) + 1
"""Of the row in the table of sums that counts transactions: their number, that of the messages that they brought, and
how often the store was opened."""

_ROW_COLUMNS: Final = """
    number INTEGER PRIMARY KEY, queue INTEGER NOT NULL, first INTEGER NOT NULL, messages INTEGER NOT NULL,
    size INTEGER NOT NULL, crc INTEGER NOT NULL, seal INTEGER NOT NULL, data BLOB NOT NULL
"""

Migration = Callable[[sqlite3.Connection], None]


def _first(connection: sqlite3.Connection) -> None:
    """Make the tables.

    The table of sums says how many records each table has, the sum of their seals and the highest key ever: a table of
    which a part is gone, or that is an older state of itself, is known by it, though every record in it is in order.
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
    for at, table in enumerate(TABLES, 1):
        connection.execute("INSERT INTO sums VALUES (?, ?, 0, 0, 0)", (at, table.name))
        _sum_up(connection, table)


def _sum_up(connection: sqlite3.Connection, table: Table) -> None:
    """Have the table of sums follow what happens to another."""
    for event, change in (
        ("INSERT", f"count = count + 1, sum = sum + new.seal, last = max(last, new.{table.key})"),
        ("UPDATE", "sum = sum + new.seal - old.seal"),
        ("DELETE", "count = count - 1, sum = sum - old.seal"),
    ):
        connection.execute(
            f"CREATE TRIGGER {table.name}_{event.lower()} AFTER {event} ON {table.name} "
            f"BEGIN UPDATE sums SET {change} WHERE id = {TABLES.index(table) + 1}; END"
        )


def _second(connection: sqlite3.Connection) -> None:
    """Let positions say how many messages a queue has.

    Those that are there do not know it, and keep their seals, right or wrong; so the sums stay as they are.
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
    """Let the table of sums count the transactions, the messages that they brought, and how often the store was opened.

    It stands there because that page is written with every transaction in any case.
    """
    connection.execute("INSERT INTO sums VALUES (?, ?, 0, 0, 0)", (COMMITS_ID, COMMITS))


MIGRATIONS: Final[tuple[Migration, ...]] = (_first, _second, _third)
"""The first makes version 1 of nothing, the second version 2 of version 1 ... One that changes a table makes it anew
and does not alter it: a file's statements are compared with those of a new one, and SQLite rewrites what it alters."""


def recognise(path: Path) -> bool:
    """Look at the file before anybody opens it; tells whether it is there.

    Raises StoreError if it is another program's, cannot be read, or is gone.
    """
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        if path.with_name(path.name + "-wal").exists():
            raise StoreError(
                f"the store '{path}' is gone, but its log is there: bring the file back, or remove '{path}-wal'"
            ) from None
        _refuse_if_counted(path)
        return False
    except OSError as error:
        raise refused(error, path, "open") from None
    if len(head) < 100 or not head.startswith(MAGIC):
        raise StoreError(
            f"'{path}' is no store of Penstock: it does not begin as a SQLite database does; if it was one, "
            "'penstock repair' saves what can be read"
        )
    application = int.from_bytes(head[68:72], "big")
    if application != APPLICATION:
        raise StoreError(
            f"'{path}' is no store of Penstock but a SQLite database of another program (application id "
            f"{application}); name another folder with --data"
        )
    return True


def _refuse_if_counted(path: Path) -> None:
    counter = CommitCounter(path.parent)
    count = counter.read()
    if count is not None and count.transactions:
        raise StoreError(
            f"the store '{path}' is gone, with the {count.transactions:,} transactions that it had: bring the file "
            f"back, or remove '{counter.path}' to begin with nothing"
        )


def make(path: Path) -> None:
    """Make the file, under another name until it is whole: a file that is too short has been cut off.

    It has its write-ahead log from the first day, and never a rollback journal under its own name: where a file system
    does not keep the order of names, a power failure could leave that beside a log, and the file is refused then.
    Raises sqlite3.Error or OSError.
    """
    part = path.with_name(path.name + ".new")
    for end in ("", "-journal", "-wal", "-shm"):
        part.with_name(part.name + end).unlink(missing_ok=True)
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        migrate(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
    part.rename(path)
    synchronise(path.parent)


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Run the migrations that the file has not seen, and note who opened it; count that it was opened.

    Raises StoreError if it is too new.
    """
    newest = len(migrations)
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version < 0:
            raise StoreError(f"cannot open the store '{path}': {DAMAGED}")
        if version > newest:
            raise StoreError(
                f"the store '{path}' was last opened by Penstock {_opened_by(connection)} and has form {version}; "
                f"Penstock {penstock.__version__} reads up to form {newest}: start that version, or a newer one"
            )
        for migrate in migrations[version:]:
            migrate(connection)
        if not _statements(connection) >= _expected(migrations):
            raise StoreError(f"cannot open the store '{path}': {DAMAGED}")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("UPDATE sums SET last = last + 1 WHERE id = ?", (COMMITS_ID,))
        connection.execute(
            "INSERT INTO about VALUES ('penstock', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (penstock.__version__,),
        )
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _expected(migrations: Sequence[Migration]) -> set[tuple[bytes, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        for migrate in migrations:
            migrate(fresh)
        return _statements(fresh)


def _statements(connection: sqlite3.Connection) -> set[tuple[bytes, ...]]:
    """Return what all tables, indexes and triggers are made by. A flipped bit in one would change what it does."""
    columns = ", ".join(f"CAST({name} AS BLOB)" for name in ("type", "name", "tbl_name", "sql"))
    return set(connection.execute(f"SELECT {columns} FROM sqlite_master"))


def _opened_by(connection: sqlite3.Connection) -> str:
    found = connection.execute("SELECT value FROM about WHERE name = 'penstock'").fetchone()
    return found[0].decode(errors="replace") if found else "of an unknown version"
