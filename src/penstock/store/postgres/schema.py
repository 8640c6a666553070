"""Schema of the PostgreSQL store, its migrations, and the statements of a commit, which are idempotent.

Each schema version is a migration from the one before; a new schema runs all of them. The migrations run in one
transaction of the broker that holds the store's lock. The table `about` has the schema version and the Penstock that
opened the store last. The form of that table never changes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq, sql

from penstock.errors import StoreError
from penstock.store.postgres.lease import FENCE
from penstock.store.postgres.session import Call, DatabaseAddress, Session, Statement
from penstock.store.records import UNKNOWN, MetadataRecord, StoreTransaction, piece_key
from penstock.store.tables import (
    METADATA_RECORDS,
    PIECES,
    POSITIONS,
    ROWS,
    SETTLEMENTS,
    TABLES,
    Table,
    encoded,
    insertions,
)
from penstock.version import VERSION

Migration = Callable[[psycopg.Connection[Any]], None]

_BUSY: Final = "autovacuum_vacuum_cost_delay = 0"
"""Storage parameters of a table whose rows are all deleted again: vacuum must keep pace with the writers."""


def _first(connection: psycopg.Connection[Any]) -> None:
    """Create the tables.

    The broker numbers rows, settlement records (`notes`) and queues. Data is stored uncompressed (EXTERNAL):
    compression here would cost more than it saves. The number of a metadata record (`things`) is its position in the
    order of declarations. Tables that are updated in place leave room for the next version (fillfactor), so that their
    indexes stay unchanged.
    """
    for statement in (
        "CREATE TABLE about (name text PRIMARY KEY, value text NOT NULL)",
        "CREATE TABLE lease (epoch bigint NOT NULL, host text NOT NULL, process bigint NOT NULL, "
        "since timestamptz NOT NULL, backend bigint NOT NULL) WITH (fillfactor = 10)",
        "INSERT INTO lease VALUES (0, '', 0, now(), 0)",
        FENCE,
        "CREATE TABLE rows (number bigint PRIMARY KEY, queue bigint NOT NULL, first bigint NOT NULL, "
        "messages bigint NOT NULL, size bigint NOT NULL, crc bigint NOT NULL, seal bigint NOT NULL, "
        f"data bytea NOT NULL) WITH ({_BUSY}, toast.{_BUSY})",
        "ALTER TABLE rows ALTER data SET STORAGE EXTERNAL",
        "CREATE INDEX pages ON rows (queue, first, number) WHERE queue > 0",
        f"CREATE TABLE notes (number bigint PRIMARY KEY, seal bigint NOT NULL, data bytea NOT NULL) WITH ({_BUSY})",
        "ALTER TABLE notes ALTER data SET STORAGE EXTERNAL",
        "CREATE TABLE things (number bigint GENERATED ALWAYS AS IDENTITY UNIQUE, kind bytea NOT NULL, "
        "key bytea NOT NULL, seal bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (kind, key))",
        "CREATE TABLE positions (queue bigint PRIMARY KEY, tail bigint NOT NULL, delivered bigint NOT NULL, "
        "seal bigint NOT NULL) WITH (fillfactor = 50)",
    ):
        connection.execute(statement.encode())


def _second(connection: psycopg.Connection[Any]) -> None:
    """Add the number of messages to positions; the checksums of older positions do not change."""
    connection.execute(f"ALTER TABLE positions ADD messages bigint NOT NULL DEFAULT {UNKNOWN}".encode())


def _third(connection: psycopg.Connection[Any]) -> None:
    """Add the tables for the bodies of large messages."""
    for statement in (
        "CREATE TABLE pieces (number bigint PRIMARY KEY, body bigint NOT NULL, size bigint NOT NULL, "
        f"crc bigint NOT NULL, seal bigint NOT NULL, data bytea NOT NULL) WITH ({_BUSY}, toast.{_BUSY})",
        "ALTER TABLE pieces ALTER data SET STORAGE EXTERNAL",
        "CREATE TABLE row_bodies (number bigint PRIMARY KEY, bodies bigint NOT NULL, seal bigint NOT NULL, "
        f"data bytea NOT NULL) WITH ({_BUSY})",
        "ALTER TABLE row_bodies ALTER data SET STORAGE EXTERNAL",
    ):
        connection.execute(statement.encode())


MIGRATIONS: Final[tuple[Migration, ...]] = (_first, _second, _third)
"""Migrations: the first creates version 1, the second makes version 2 of version 1, and so on."""


def migrate(
    session: Session, address: DatabaseAddress, migrations: Sequence[Migration] = MIGRATIONS, makes: bool = True
) -> None:
    """Create the schema if `makes` is true, or run the missing migrations, and record the opener.

    Raises StoreError if the schema is newer than this Penstock, foreign or missing; psycopg.Error.
    """
    newest = len(migrations)
    with session.connection.transaction():
        version = _version(session, address)
        if version == 0 and not makes:
            raise StoreError(f"there is no store of Penstock in {address}")  # Roll back what was created.
        if version > newest:
            ((opened_by,),) = session.ask("SELECT value FROM about WHERE name = 'penstock'")
            raise StoreError(
                f"the store in {address} was last opened by Penstock {opened_by} and has schema version {version}; "
                f"Penstock {VERSION} reads up to version {newest}: start Penstock {opened_by} or a newer one"
            )
        for migrate in migrations[version:]:
            migrate(session.connection)
        for name, value in (("form", str(newest)), ("penstock", VERSION)):
            session.ask(
                "INSERT INTO about VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value "
                "WHERE about.value <> excluded.value",
                name, value,
            )  # fmt: skip


def _version(session: Session, address: DatabaseAddress) -> int:
    """Return the schema's version; 0 for an empty one, which is created if missing. Raises StoreError."""
    row = session.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", address.schema)
    if not row:
        session.connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(address.schema)))
        return 0
    tables = [
        name
        for (name,) in session.ask(
            "SELECT relname::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE nspname = %s AND relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY relname",
            address.schema,
        )
    ]
    if not tables:
        return 0
    if "about" in tables and "lease" in tables:
        known = session.ask("SELECT value FROM about WHERE name = 'form' AND value ~ '^[0-9]{1,9}$'")
        if known:
            return int(known[0][0])
    shown = ", ".join(tables[:3]) + (" ..." if len(tables) > 3 else "")
    raise StoreError(
        f"schema '{address.schema}' of database '{address.database}' is not a store of Penstock: it has tables of "
        f"another program ({shown}); name another with ?schema= in the URL"
    )


INT8, BYTEA, INT8_ARRAY = 20, 17, 1016
"""OIDs of types; they never change."""
PLACE: Final = 0
"""Number that checksums of metadata cover: the server assigns the real number, so it is left out."""

integer = struct.Struct("!q").pack


def _insert(table: Table, returning: str = "") -> Statement:
    """Return the statement that inserts or replaces a record; its data comes last."""
    values = ", ".join(f"${at}" for at in range(1, len(table.columns) + 1))
    changes = ", ".join(f"{name} = excluded.{name}" for name in table.columns[1:])
    text = (
        f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({values}) "
        f"ON CONFLICT ({table.key}) DO UPDATE SET {changes} {returning}"
    )
    types = tuple(BYTEA if name == "data" else INT8 for name in table.columns)
    return Statement(f"insert_{table.name}".encode(), text, types)


def _delete(table: Table, returning: str = "") -> Statement:
    text = f"DELETE FROM {table.name} WHERE {table.key} = ANY($1) {returning}"
    return Statement(f"delete_{table.name}".encode(), text, (INT8_ARRAY,))


FENCE_CALL: Final = Statement(b"fence", "SELECT fence($1)", (INT8,))
# A new row or piece has RETURNING xmax = 0: no transaction has changed it.
INSERT: Final = {each.name: _insert(each, "RETURNING xmax = 0" if each in (ROWS, PIECES) else "") for each in TABLES}
INSERT_THING: Final = Statement(
    b"insert_things",
    "INSERT INTO things (kind, key, seal, data) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (kind, key) DO UPDATE SET seal = excluded.seal, data = excluded.data",
    (BYTEA, BYTEA, INT8, BYTEA),
)
DELETE_ROWS: Final = Statement(
    b"delete_rows",
    "WITH bodies AS (DELETE FROM row_bodies WHERE number = ANY($1)) "
    "DELETE FROM rows WHERE number = ANY($1) RETURNING octet_length(data)::bigint",
    (INT8_ARRAY,),
)
DELETE_PAGES: Final = Statement(
    b"delete_pages",
    "WITH pages AS (DELETE FROM rows WHERE queue = $1 AND queue > 0 AND first BETWEEN $2 AND $3 "
    "RETURNING number, octet_length(data)::bigint AS size), "
    "bodies AS (DELETE FROM row_bodies WHERE number IN (SELECT number FROM pages)) SELECT size FROM pages",
    (INT8, INT8, INT8),
)
DELETE_PIECES: Final = Statement(
    b"delete_pieces",
    "DELETE FROM pieces WHERE number BETWEEN $1 AND $2 RETURNING octet_length(data)::bigint",
    (INT8, INT8),
)
DELETE_NOTES: Final = _delete(SETTLEMENTS)
DELETE_POSITIONS: Final = _delete(POSITIONS)
DELETE_THING: Final = Statement(b"delete_thing", "DELETE FROM things WHERE kind = $1 AND key = $2", (BYTEA, BYTEA))


class Change(NamedTuple):
    """Change of a commit in the tables of rows and pieces, in bytes of data."""

    written: int
    replaced: int
    """Bytes of data that replaced existing rows."""
    deleted: int


def calls_of(commit: StoreTransaction, epoch: int) -> list[Call]:
    """Return the statements of a commit, to run after the check of the lease."""
    calls: list[Call] = [(FENCE_CALL, [integer(epoch)])]
    for table, records in insertions(commit):
        calls += [(INSERT[table.name], _parameters(table.write(record))) for record in records]
    calls += [_declaration(record) for record in commit.latest()]
    for statement, keys in (
        (DELETE_ROWS, commit.rows_gone),
        (DELETE_NOTES, commit.settlements_gone),
        (DELETE_POSITIONS, commit.positions_gone),
    ):
        if keys:
            calls.append((statement, [array(keys)]))
    calls += [(DELETE_PAGES, [*map(integer, pages)]) for pages in commit.pages_gone]
    for body, first, last in commit.pieces_gone:
        calls.append((DELETE_PIECES, [integer(piece_key(body, first)), integer(piece_key(body, last))]))
    return calls


def change_of(calls: Sequence[Call], results: Iterable[pq.abc.PGresult]) -> Change:
    """Return the change of a commit, from the results of its statements."""
    written = replaced = deleted = 0
    for (statement, values), result in zip(calls, results, strict=True):
        if statement in (INSERT[ROWS.name], INSERT[PIECES.name]):
            size = len(values[-1])
            written += size
            replaced += 0 if result.get_value(0, 0) == b"\x01" else size
        elif statement in (DELETE_ROWS, DELETE_PAGES, DELETE_PIECES):
            deleted += sum(int.from_bytes(result.get_value(at, 0) or b"", "big") for at in range(result.ntuples))
    return Change(written, replaced, deleted)


def array(numbers: Sequence[int]) -> bytes:
    """Return bigints as an array in PostgreSQL's binary form: dimensions, nulls, type; length, first; the elements."""
    head = struct.pack("!5i", 1, 0, INT8, len(numbers), 1)
    return head + b"".join([b"\0\0\0\x08" + integer(number) for number in numbers])


def _declaration(record: MetadataRecord) -> Call:
    kind, key = encoded(record.kind), encoded(record.key)
    if record.data is None:
        return DELETE_THING, [kind, key]
    return INSERT_THING, _parameters(METADATA_RECORDS.write(PLACE, kind, key, record.data)[1:])


def _parameters(columns: Sequence[int | bytes]) -> list[bytes]:
    return [each if isinstance(each, bytes) else integer(each) for each in columns]
