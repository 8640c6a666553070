"""Catalogue: a SQLite file with the shards of a node, the virtual hosts in each, and users with their permissions.

The file is the store of the node's own broker, which has no queues: what that broker records of users, permissions,
limits, global parameters and virtual hosts becomes rows. Each transaction has a version, one more than the last, and
each row has the version of its last change. A deleted row stays without a value, so that a shard which asks for all
above a version misses nothing.

The file is written under another name until it is complete. So an empty file is one that something else has cut off.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from typing_extensions import override

from penstock.errors import StoreError
from penstock.persistence.metadata_records import (
    NUMBERS,
    PARAMETER,
    PERMISSION,
    SCRAM_SECRET,
    TOPIC_PERMISSION,
    USER,
    VHOST,
    VHOST_LIMITS,
    names_of,
    unpack,
)
from penstock.settings.start import SHARDS_MOST
from penstock.store.faults import fault, is_damage, refused
from penstock.store.node_folder import CATALOGUE
from penstock.store.records import (
    Damage,
    MessageRow,
    MetadataRecord,
    Record,
    StoreTransaction,
    ignore,
)
from penstock.store.schema import making
from penstock.store.space import room
from penstock.store.store import Store, Usage
from penstock.store.tables import METADATA_RECORDS, Table

APPLICATION: Final = int.from_bytes(b"PnsC", "big")
FORMAT: Final = 1
"""Version of the tables (`user_version`)."""
MAGIC: Final = b"SQLite format 3\x00"
FILE: Final[str] = CATALOGUE
BUSY_S: Final = 2.0
"""Seconds for which a call waits for another process that uses the file."""
ACCESS_KINDS: Final = (USER, PERMISSION, TOPIC_PERMISSION, VHOST_LIMITS, SCRAM_SECRET, PARAMETER)
"""Kinds of records in the table `access`."""
UNRECORDED: Final = (NUMBERS,)
"""Kinds of records that the node's own broker writes and nobody reads."""
LOST: Final = "restore the file from a backup of the data directory"
WHAT: Final = "the catalogue"
TABLES: Final = (
    "CREATE TABLE cluster (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL)",
    "CREATE TABLE shards (name TEXT PRIMARY KEY, store TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE vhosts (name TEXT PRIMARY KEY, shard TEXT NOT NULL, value BLOB, version INTEGER NOT NULL) "
    "WITHOUT ROWID",
    "CREATE TABLE access (kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB, version INTEGER NOT NULL, "
    "PRIMARY KEY (kind, key)) WITHOUT ROWID",
    "CREATE INDEX access_version ON access (version, kind, key)",
    "INSERT INTO cluster VALUES (1, 0)",
)


class ShardRow(NamedTuple):
    """A shard."""

    name: str
    store: str
    """URL of its store; empty for the data directory that follows from its name."""


class AccessRow(NamedTuple):
    """A user, a permission or another record of access, with the version of its last change."""

    version: int
    kind: str
    key: str
    value: bytes | None
    """The record; None if it is deleted."""


Place = tuple[int, str, str]
"""Version, kind and key of a row: the order in which rows are read."""
BEGIN: Final[Place] = (0, "", "")


class Catalogue(Store):
    """The file, as the store of the node's own broker."""

    when_damaged: ClassVar[str] = LOST

    def __init__(self, folder: Path, committed: Callable[[int], None]) -> None:
        """`committed` gets the version of each transaction, in the thread that commits."""
        self.path = folder / FILE
        self.damaged = []
        self.was_left = False
        self._committed = committed
        self._connection: sqlite3.Connection | None = None

    def __str__(self) -> str:
        """Return the path, for display."""
        return str(self.path.parent)

    # Open and close

    @override
    def open(self) -> None:
        with translated(self.path, "open"):
            if not self.path.exists():
                _make(self.path)
            check_file(self.path)
            self._connection = _connected(self.path)
            check_tables(self._connection, self.path)

    @override
    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection. Raises StoreError."""
        if self._connection is None:
            raise StoreError(f"the catalogue '{self.path}' is not open")
        return self._connection

    # Shards

    def add_shard(self, row: ShardRow, records: Iterable[MetadataRecord] = ()) -> None:
        """Add a shard, and records in the same transaction: both or nothing.

        Raises StoreError if there is a shard of that name, or there are too many.
        """
        present = shards_in(self.connection)
        if row.name in [each.name for each in present]:
            raise StoreError(f"there is a shard '{row.name}' already")
        if len(present) >= SHARDS_MOST:
            raise StoreError(f"there are {SHARDS_MOST} shards, the most that a node may have")
        with self._transaction() as version:
            self.connection.execute("INSERT INTO shards VALUES (?, ?, ?)", (*row, version))
            for record in records:
                self._write(record, version)

    # The store of the node's broker

    @override
    def commit(self, commit: StoreTransaction) -> None:
        if commit.rows or commit.pieces or commit.settlements or commit.positions:
            raise StoreError(f"the catalogue '{self.path}' stores no messages")
        changes = [record for record in commit.latest() if record.kind not in UNRECORDED]
        if not changes:
            return
        with self._transaction() as version:
            for record in changes:
                self._write(record, version)
        self._committed(version)

    def _write(self, record: MetadataRecord, version: int) -> None:
        """Write one record. Raises StoreError for a kind that a node does not own."""
        if record.kind in ACCESS_KINDS:
            self.connection.execute(
                "INSERT INTO access VALUES (?, ?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, "
                "version = excluded.version",
                (record.kind, record.key, record.data, version),
            )
        elif record.kind != VHOST:
            raise StoreError(f"the catalogue '{self.path}' stores no {record.kind}: it belongs to a shard")
        elif record.data is None:
            self.connection.execute(
                "UPDATE vhosts SET value = NULL, version = ? WHERE name = ?", (version, *names_of(record.key))
            )
        else:
            name = unpack(record.data).text("name")
            there = self.connection.execute("SELECT shard FROM vhosts WHERE name = ? AND value NOT NULL", (name,))
            found = there.fetchone()
            shard = self._emptiest() if found is None else found[0]
            self.connection.execute("REPLACE INTO vhosts VALUES (?, ?, ?, ?)", (name, shard, record.data, version))

    def _emptiest(self) -> str:
        """Return the shard with the fewest virtual hosts, the oldest of them. Raises StoreError without a shard."""
        found = self.connection.execute(
            "SELECT shards.name FROM shards LEFT JOIN vhosts ON vhosts.shard = shards.name AND value NOT NULL "
            "GROUP BY shards.name ORDER BY count(vhosts.name), shards.version LIMIT 1"
        ).fetchone()
        if found is None:
            raise StoreError(f"the catalogue '{self.path}' has no shard for a virtual host")
        shard: str = found[0]
        return shard

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[int]:
        """Begin a transaction with the next version, and commit it. Raises StoreError, after which nothing changed."""
        connection = self.connection
        with translated(self.path, "write"):
            connection.execute("BEGIN IMMEDIATE")
            try:
                (version,) = connection.execute("UPDATE cluster SET version = version + 1 RETURNING version").fetchone()
                yield version
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @override
    def _read(self, table: Table) -> Iterator[Any]:
        """Return definitions; the table of metadata alone has any."""
        if table is not METADATA_RECORDS:
            return
        with translated(self.path, "read"):
            for name, value in self.connection.execute("SELECT name, value FROM vhosts WHERE value NOT NULL"):
                yield MetadataRecord(VHOST, name, value)
            for kind, key, value in self.connection.execute(
                "SELECT kind, key, value FROM access WHERE value NOT NULL ORDER BY version, kind, key"
            ):
                yield MetadataRecord(kind, key, value)

    @override
    def piece(self, body: int, at: int) -> bytes | None:
        return None

    @override
    def pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        return []

    @override
    def page_heads(self, queue: int, sequence: int, most: int) -> list[MessageRow]:
        return []

    @override
    def reclaim_space(self, idle: bool = True) -> bool:
        return False

    @override
    def check(self, take: Callable[[Record], None] = ignore) -> list[Damage]:
        check_tables(self.connection, self.path)
        for record in self.metadata():
            take(record)
        return []

    @override
    def usage(self) -> Usage:
        with translated(self.path, "read"):
            taken = self.path.stat().st_size
        free, total = room(self.path.parent)
        return Usage(taken, taken, free, total)


class CatalogueReader:
    """A second connection to the file, which reads beside the thread that writes."""

    def __init__(self, folder: Path) -> None:
        """Open the file. Raises StoreError, also if it does not exist."""
        self.path = folder / FILE
        with translated(self.path, "open"):
            check_file(self.path)
            self._connection = _connected(self.path)
            check_tables(self._connection, self.path)

    def version(self) -> int:
        """Return the version of the last transaction. Raises StoreError, as all methods do."""
        with translated(self.path, "read"):
            version: int = self._connection.execute("SELECT version FROM cluster").fetchone()[0]
            return version

    def shards(self) -> list[ShardRow]:
        """Return all shards, in the order in which they were added."""
        with translated(self.path, "read"):
            return shards_in(self._connection)

    def vhosts(self) -> dict[str, str]:
        """Return the shard of each virtual host."""
        with translated(self.path, "read"):
            return dict(self._connection.execute("SELECT name, shard FROM vhosts WHERE value NOT NULL"))

    def rows_after(self, place: Place, most: int, shard: str = "") -> list[AccessRow]:
        """Return rows of access behind a place, and virtual hosts of a shard, whose keys are their names.

        Deleted ones too, in order and `most` at most.
        """
        statement = (
            "SELECT version, kind, key, value FROM access WHERE (version, kind, key) > (?1, ?2, ?3) UNION ALL "
            "SELECT version, ?4, name, value FROM vhosts WHERE shard = ?5 AND (version, ?4, name) > (?1, ?2, ?3) "
            "ORDER BY 1, 2, 3 LIMIT ?6"
        )
        with translated(self.path, "read"):
            found = self._connection.execute(statement, (*place, VHOST, shard, most))
            return [AccessRow(*row) for row in found]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def shards_in(connection: sqlite3.Connection) -> list[ShardRow]:
    """Return the shards, in the order in which they were added. Raises sqlite3.Error."""
    return [ShardRow(*row) for row in connection.execute("SELECT name, store FROM shards ORDER BY version")]


@contextlib.contextmanager
def translated(path: Path, doing: str) -> Iterator[None]:
    """Raise the errors of SQLite and of the operating system as StoreError, with what helps for a catalogue."""
    try:
        yield
    except OSError as error:
        raise refused(error, path, doing, WHAT) from None
    except sqlite3.DatabaseError as error:
        if is_damage(error) and not _is_disk(error):
            raise StoreError(f"cannot {doing} the catalogue '{path}': it is damaged; {LOST}") from None
        raise fault(error, path, doing, WHAT) from None
    except sqlite3.Error as error:
        raise fault(error, path, doing, WHAT) from None


def _is_disk(error: sqlite3.Error) -> bool:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_IOERR


def check_file(path: Path) -> None:
    """Check the head of the file. Raises StoreError, OSError."""
    with path.open("rb") as file:
        head = file.read(100)
    if not head:
        raise StoreError(f"the catalogue '{path}' is empty: something has cut it off; {LOST}")
    if len(head) < 100 or not head.startswith(MAGIC):
        raise StoreError(
            f"'{path}' is not a catalogue of Penstock: it does not begin as a SQLite database does; {LOST}"
        )
    application = int.from_bytes(head[68:72], "big")
    if application != APPLICATION:
        raise StoreError(f"'{path}' is a database of another program (application id {application}); {LOST}")
    size = (int.from_bytes(head[16:18], "big") or 1 << 16) * int.from_bytes(head[28:32], "big")
    if path.stat().st_size < size and not path.with_name(path.name + "-wal").exists():
        raise StoreError(f"the catalogue '{path}' is damaged: its end is missing; {LOST}")


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Check the version and the tables. Raises StoreError, sqlite3.Error."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        raise StoreError(
            f"the catalogue '{path}' has version {version}; this Penstock reads version {FORMAT}, "
            "so start the Penstock that has written it"
        )
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(f"the catalogue '{path}' is damaged: {found}; {LOST}")


def _make(path: Path) -> None:
    """Create the file. Raises sqlite3.Error, OSError."""
    with making(path) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("BEGIN IMMEDIATE")
        for statement in TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")


def _connected(path: Path) -> sqlite3.Connection:
    """Return a connection for any one thread at a time. Raises sqlite3.Error."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", BUSY_S, 0, None, False, uri=True)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection
