"""The form of the store's schema: made, recognised, brought up to date, as that of a file is (store/schema.py).

Each version of the form is a migration from the one before; a new schema has gone through all of them. They run in one
transaction, by whoever holds the lock of the store. The table `about` says which version of the form it is and which
Penstock was the last to open it; it never changes its own form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

import penstock
from penstock.errors import StoreError
from penstock.store.postgres.dsn import DatabaseAddress
from penstock.store.postgres.lease import FENCE
from penstock.store.postgres.session import Session
from penstock.store.records import UNKNOWN

Migration = Callable[[psycopg.Connection[Any]], None]

_BUSY: Final = "autovacuum_vacuum_cost_delay = 0"
"""A table of which everything is deleted again: whoever cleans it up must not be slower than whoever fills it."""


def _first(connection: psycopg.Connection[Any]) -> None:
    """Make the tables.

    Numbers of rows, notes and queues are the broker's. Data is kept as it is (EXTERNAL): to compress it here would cost
    more than it brings. A thing's number is its place in the order of declarations. What changes in place again and
    again has room beside it for its next state (fillfactor), so that its indexes stay as they are.
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
    """Let positions say how many messages a queue has; the seals of those that do not know it stay as they are."""
    connection.execute(f"ALTER TABLE positions ADD messages bigint NOT NULL DEFAULT {UNKNOWN}".encode())


MIGRATIONS: Final[tuple[Migration, ...]] = (_first, _second)
"""The first makes version 1 of nothing, the second version 2 of version 1 ..."""


def migrate(
    session: Session, address: DatabaseAddress, migrations: Sequence[Migration] = MIGRATIONS, makes: bool = True
) -> None:
    """Make the schema, if it `makes` one, or run the migrations that it has not seen, and note who opened it.

    Raises StoreError if it is newer than we, not ours or not there, psycopg.Error.
    """
    newest = len(migrations)
    with session.connection.transaction():
        version = _version(session, address)
        if version == 0 and not makes:
            raise StoreError(f"there is no store of Penstock in {address}")  # What was made of it is taken back.
        if version > newest:
            ((opened_by,),) = session.ask("SELECT value FROM about WHERE name = 'penstock'")
            raise StoreError(
                f"the store in {address} was last opened by Penstock {opened_by} and has form {version}; "
                f"Penstock {penstock.__version__} reads up to form {newest}: start that version, or a newer one"
            )
        for migrate in migrations[version:]:
            migrate(session.connection)
        for name, value in (("form", str(newest)), ("penstock", penstock.__version__)):
            session.ask(
                "INSERT INTO about VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value "
                "WHERE about.value <> excluded.value",
                name, value,
            )  # fmt: skip


def _version(session: Session, address: DatabaseAddress) -> int:
    """Return the schema's version; 0 for an empty one, which is made if it is not there. Raises StoreError."""
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
        f"schema '{address.schema}' of database '{address.database}' is no store of Penstock: it has tables of another "
        f"program ({shown}); name another with ?schema= in the URL"
    )
