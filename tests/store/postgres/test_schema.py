"""Schemas of a PostgreSQL store: made, brought up to date, or refused with a sentence."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from penstock import __version__
from penstock.store.postgres import postgres_store, schema
from penstock.store.postgres.session import Session, SessionSockets
from penstock.store.records import UNKNOWN, QueuePosition
from penstock.store.tables import write_position
from tests.support.brokers import some_name
from tests.support.open_stores import committing, some_row
from tests.support.postgres import Cluster, needs_postgres, refusal
from tests.support.store_engines import PostgresEngine


def set_form(cluster: Cluster, name: str, form: int) -> None:
    cluster.ask(f"UPDATE \"{name}\".about SET value = %s WHERE name = 'form'", str(form))


def test_postgresql_store_without_psycopg_names_the_package_to_install() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from penstock.errors import ConfigError\n"
        "from penstock.store.postgres import postgres_store\n"
        "try: postgres_store('postgresql://')\n"
        "except ConfigError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "a store in PostgreSQL needs psycopg, which is not installed: pip install 'penstock[postgres]'"
    )


@needs_postgres
def test_new_store_has_the_schema_version_and_the_version_of_penstock(cluster: Cluster, engine: PostgresEngine) -> None:
    engine.contents()
    name = postgres_store(engine.url).address.schema
    about = cluster.ask(f'SELECT name, value FROM "{name}".about ORDER BY name')
    assert about == [("form", str(len(schema.MIGRATIONS))), ("penstock", __version__)]


@needs_postgres
def test_store_of_a_newer_version_is_refused_with_that_version_and_advice(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    with engine.opened() as store:
        store.commit(committing(rows=[some_row(1)]))
        address = store.address
    for name, value in (("form", "7"), ("penstock", "3.2.1")):
        cluster.ask(f'UPDATE "{address.schema}".about SET value = %s WHERE name = %s', value, name)
    assert refusal(engine.url) == (
        f"the store in {address} was last opened by Penstock 3.2.1 and has schema version 7; "
        f"Penstock {__version__} reads up to version {len(schema.MIGRATIONS)}: start Penstock 3.2.1 or a newer one"
    )
    set_form(cluster, address.schema, len(schema.MIGRATIONS))
    assert engine.contents().rows == [some_row(1)]


@needs_postgres
def test_schema_of_another_program_is_refused_and_left_unchanged(cluster: Cluster, engine: PostgresEngine) -> None:
    name = postgres_store(engine.url).address.schema
    cluster.ask(f'CREATE SCHEMA "{name}"')
    cluster.ask(f'CREATE TABLE "{name}".bookmarks (url text)')
    cluster.ask(f'CREATE TABLE "{name}".about (me text)')
    assert refusal(engine.url) == (
        f"schema '{name}' of database 'postgres' is not a store of Penstock: it has tables of another program "
        "(about, bookmarks); name another with ?schema= in the URL"
    )
    tables = cluster.ask("SELECT count(*) FROM pg_tables WHERE schemaname = %s", name)
    assert tables == [(2,)]


@needs_postgres
def test_empty_schema_that_an_administrator_has_made_becomes_a_store(cluster: Cluster, engine: PostgresEngine) -> None:
    user, name = some_name("user"), postgres_store(engine.url).address.schema
    cluster.ask(f'CREATE ROLE "{user}" LOGIN')
    said = refusal(cluster.url(user=user, schema=name))
    assert said == (
        f"cannot open the store in schema '{name}' of database 'postgres' at '{cluster.folder}', port {cluster.port}: "
        f"user '{user}' may not: permission denied for database postgres; give it the right, or own the schema"
    )
    cluster.ask(f'CREATE SCHEMA "{name}" AUTHORIZATION "{user}"')
    store = postgres_store(cluster.url(user=user, schema=name))
    store.open()
    store.commit(committing(rows=[some_row(1)]))
    store.close()


@needs_postgres
@pytest.mark.parametrize("name", ['we"ird; DROP', "größer", "Upper Case", "a" * 63])
def test_schema_may_have_any_name(cluster: Cluster, name: str) -> None:
    store = postgres_store(cluster.url(schema=name))
    store.open()
    store.commit(committing(rows=[some_row(1)]))
    assert list(store.rows()) == [some_row(1)]
    assert store.usage().taken > 0
    store.close()


@needs_postgres
def test_migrations_run_in_order_and_a_failed_migration_leaves_the_old_version(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    with engine.opened() as store:
        store.commit(committing(rows=[some_row(1)]))
        address = store.address
    more = (
        *schema.MIGRATIONS,
        lambda connection: connection.execute("CREATE TABLE more (number int)"),
        lambda connection: connection.execute("INSERT INTO more VALUES (3)"),
    )
    session = Session(address, SessionSockets())
    with pytest.raises(psycopg.errors.UndefinedTable):
        schema.migrate(session, address, (*more, lambda connection: connection.execute("DROP TABLE nowhere")))
    assert session.ask("SELECT value FROM about WHERE name = 'form'") == [(str(len(schema.MIGRATIONS)),)]
    schema.migrate(session, address, more)
    schema.migrate(session, address, more)
    assert session.ask("SELECT number FROM more") == [(3,)]
    assert session.ask("SELECT value FROM about WHERE name = 'form'") == [(str(len(more)),)]
    session.close()
    set_form(cluster, address.schema, len(schema.MIGRATIONS))
    assert engine.contents().rows == [some_row(1)]


@needs_postgres
def test_positions_of_form_1_are_restored_without_the_number_of_messages(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    with engine.opened() as store:
        address = store.address
    cluster.ask(f'ALTER TABLE "{address.schema}".positions DROP messages')
    cluster.ask(f'DROP TABLE "{address.schema}".pieces, "{address.schema}".row_bodies')
    for queue, wrong in ((1, 0), (2, 1)):
        seal = write_position(QueuePosition(queue, 70, 7))[-1] ^ wrong
        cluster.ask(f'INSERT INTO "{address.schema}".positions VALUES (%s, 70, 7, %s)', queue, seal)
    set_form(cluster, address.schema, 1)
    with engine.opened() as store:
        assert list(store.positions()) == [QueuePosition(1, 70, 7, UNKNOWN)]
        assert [damage.what for damage in store.damaged] == ["position 2"]
        store.commit(committing(positions=[QueuePosition(1, 72, 8, 5), QueuePosition(2, 80, 9, 6)]))
    with engine.opened() as store:
        assert list(store.positions()) == [QueuePosition(1, 72, 8, 5), QueuePosition(2, 80, 9, 6)]
