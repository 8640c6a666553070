"""Schema of the PostgreSQL store: creation, recognition and migrations, as store/schema.py does for files.

Each schema version is a migration from the one before; a new schema runs all of them. They run in one transaction of
the broker that holds the store's lock. The table `about` has the schema version and the Penstock that opened the store
last. That table never changes its form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from penstock.errors import StoreError
from penstock.store.postgres.dsn import DatabaseAddress
from penstock.store.postgres.lease import FENCE
from penstock.store.postgres.session import Session
from penstock.store.records import UNKNOWN
from penstock.version import VERSION

Migration = Callable[[psycopg.Connection[Any]], None]

_BUSY: Final = "autovacuum_vacuum_cost_delay = 0"
"""Storage parameters of a table whose rows are all deleted again: vacuum must keep pace with the writers."""


def _first(connection: psycopg.Connection[Any]) -> None:
    """Create the tables.

    The broker numbers rows, notes and queues. Data is stored uncompressed (EXTERNAL): compression here would cost more
    than it saves. The number of a thing is its position in the order of declarations. Tables that are updated in place
    leave room for the next version (fillfactor), so that their indexes stay unchanged.
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
    """Add the number of messages to positions; the checksums of older positions stay as they are."""
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
    found = session.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", address.schema)
    if not found:
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
