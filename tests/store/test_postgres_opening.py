"""A database is made ready, brought up to date or refused with a sentence that names it and never shows a password."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from penstock import __version__
from penstock.errors import ConfigError, StoreError
from penstock.store.postgres import postgres_store, schema
from penstock.store.postgres.session import Session
from penstock.store.postgres.session_sockets import SessionSockets
from penstock.store.records import UNKNOWN, QueuePosition
from penstock.store.tables import checksum_position
from tests.support.brokers import some_name
from tests.support.open_stores import committing, some_row
from tests.support.postgres import Cluster, needs_postgres
from tests.support.store_engines import PostgresEngine

ROOT = Path(__file__).resolve().parents[2]


def refusal(url: str) -> str:
    with pytest.raises(StoreError) as raised:
        postgres_store(url).open()
    assert "secret" not in str(raised.value)
    return str(raised.value)


def set_form(cluster: Cluster, name: str, form: int) -> None:
    cluster.ask(f"UPDATE \"{name}\".about SET value = %s WHERE name = 'form'", str(form))


@pytest.fixture
def engine(cluster: Cluster) -> PostgresEngine:
    return PostgresEngine(cluster)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:secret@h/db?schema=", "schema '' of the store's URL: a name has 1 to 63 octets"),
        ("postgresql://u:secret@h/db?schema=pg_x", "schema 'pg_x' of the store's URL: a name has 1 to 63 octets"),
        (f"postgresql://u:secret@h/db?schema={'ü' * 32}", "a name has 1 to 63 octets"),
        ("postgresql://u:secret@h/db?colour=red", "cannot be used: invalid URI query parameter: \"colour\""),
        ("postgresql://u@h/db?passwordsecret", "the store's URL cannot be used: it is not a valid PostgreSQL URL"),
        ("postgresql://u:secret@[h/db", "the store's URL cannot be used: "),
        ("postgresql://u:%zzsecret@h/db", "the store's URL cannot be used: "),
        ("http://u:secret@h/db", "the store's URL cannot be used: "),
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_meant_is_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        postgres_store(url)
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_store_is_called_by_its_database_and_where_that_is() -> None:
    assert (
        str(postgres_store("postgresql://u:secret@db1:6000/orders").address) == "database 'orders' at 'db1', port 6000"
    )
    address = postgres_store("postgresql://u:secret@/orders?host=/run/pg&schema=eu").address
    assert str(address) == "schema 'eu' of database 'orders' at '/run/pg', port 5432"


def test_without_psycopg_the_store_says_what_to_install() -> None:
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
def test_a_new_store_says_its_form_and_who_made_it(cluster: Cluster, engine: PostgresEngine) -> None:
    engine.contents()
    name = postgres_store(engine.url).address.schema
    about = cluster.ask(f'SELECT name, value FROM "{name}".about ORDER BY name')
    assert about == [("form", str(len(schema.MIGRATIONS))), ("penstock", __version__)]


@needs_postgres
def test_a_store_of_a_newer_version_is_refused_with_that_version_and_what_to_do(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    with engine.opened() as store:
        store.commit(committing(rows=[some_row(1)]))
        address = store.address
    for name, value in (("form", "7"), ("penstock", "3.2.1")):
        cluster.ask(f'UPDATE "{address.schema}".about SET value = %s WHERE name = %s', value, name)
    assert refusal(engine.url) == (
        f"the store in {address} was last opened by Penstock 3.2.1 and has form 7; "
        f"Penstock {__version__} reads up to form {len(schema.MIGRATIONS)}: start that version, or a newer one"
    )
    set_form(cluster, address.schema, len(schema.MIGRATIONS))
    assert engine.contents().rows == [some_row(1)]


@needs_postgres
def test_a_schema_of_another_program_is_refused_and_left_as_it_is(cluster: Cluster, engine: PostgresEngine) -> None:
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
def test_an_empty_schema_that_an_administrator_has_made_becomes_a_store(
    cluster: Cluster, engine: PostgresEngine
) -> None:
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
def test_a_schema_may_have_any_name(cluster: Cluster, name: str) -> None:
    store = postgres_store(cluster.url(schema=name))
    store.open()
    store.commit(committing(rows=[some_row(1)]))
    assert list(store.rows()) == [some_row(1)]
    assert store.usage().taken > 0
    store.close()


@needs_postgres
def test_migrations_that_a_store_has_not_seen_run_in_order_and_one_that_fails_leaves_the_old_form(
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
def test_positions_of_form_1_come_back_and_do_not_say_how_many_messages_there_are(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    with engine.opened() as store:
        address = store.address
    cluster.ask(f'ALTER TABLE "{address.schema}".positions DROP messages')
    for queue, wrong in ((1, 0), (2, 1)):
        seal = checksum_position(QueuePosition(queue, 70, 7)) ^ wrong
        cluster.ask(f'INSERT INTO "{address.schema}".positions VALUES (%s, 70, 7, %s)', queue, seal)
    set_form(cluster, address.schema, 1)
    with engine.opened() as store:
        assert list(store.positions()) == [QueuePosition(1, 70, 7, UNKNOWN)]
        assert [damage.what for damage in store.damaged] == ["position 2"]
        store.commit(committing(positions=[QueuePosition(1, 72, 8, 5), QueuePosition(2, 80, 9, 6)]))
    with engine.opened() as store:
        assert list(store.positions()) == [QueuePosition(1, 72, 8, 5), QueuePosition(2, 80, 9, 6)]


@needs_postgres
def test_a_wrong_password_is_told_and_not_shown(cluster: Cluster) -> None:
    cluster.ask("DROP ROLE IF EXISTS locked")
    cluster.ask("CREATE ROLE locked LOGIN PASSWORD 'right'")
    cluster.ask("CREATE DATABASE locked OWNER locked")
    wrong = cluster.url("locked", "locked:secret", tcp=True)
    assert refusal(wrong) == (
        f"cannot reach the store in database 'locked' at '127.0.0.1', port {cluster.port}: "
        'password authentication failed for user "locked"; '
        "give the right password in the URL, in PGPASSWORD or in ~/.pgpass"
    )
    assert "no password supplied; give one" in refusal(cluster.url("locked", "locked", tcp=True))
    store = postgres_store(cluster.url("locked", "locked:right", tcp=True))
    store.open()
    store.commit(committing(rows=[some_row(1)]))
    store.close()


@needs_postgres
def test_a_database_or_a_user_that_is_not_there_is_named_with_what_to_do(cluster: Cluster) -> None:
    assert refusal(cluster.url("nowhere")).endswith(
        'database "nowhere" does not exist; create it with: createdb, or give another database in the URL'
    )
    assert refusal(cluster.url(user="nobody-there")).endswith(
        'role "nobody-there" does not exist; create it with: createuser, or give another user in the URL'
    )


@needs_postgres
def test_a_database_that_may_only_be_read_is_refused_at_start_and_told_at_run_time(cluster: Cluster) -> None:
    database = some_name("readonly")
    cluster.ask(f'CREATE DATABASE "{database}"')
    read_only = f'ALTER DATABASE "{database}" SET default_transaction_read_only = '
    cluster.ask(read_only + "on")
    said = (
        f"the store in database '{database}' at '{cluster.folder}', port {cluster.port}: the database may only be read"
    )
    assert said in refusal(cluster.url(database))
    cluster.ask(read_only + "off")
    store = postgres_store(cluster.url(database))
    store.open()
    store._session.set("default_transaction_read_only", "on")
    with pytest.raises(StoreError, match=r"^cannot write the store in .*: the database may only be read; is this"):
        store.commit(committing(rows=[some_row(1)]))
    store._session.set("default_transaction_read_only", "off")
    store.commit(committing(rows=[some_row(1)]))
    assert list(store.rows()) == [some_row(1)]
    store.close()


@needs_postgres
def test_a_session_is_set_up_for_what_it_promises_whatever_the_database_says(cluster: Cluster) -> None:
    database = some_name("loose")
    cluster.ask(f'CREATE DATABASE "{database}"')
    cluster.ask(f'ALTER DATABASE "{database}" SET synchronous_commit = off')
    store = postgres_store(cluster.url(database, tcp=True))
    store.open()
    shown = {
        name: store._session.ask(f"SHOW {name}")[0][0]
        for name in ("synchronous_commit", "idle_session_timeout", "tcp_keepalives_idle", "tcp_user_timeout")
    }
    store.close()
    assert shown == {
        "synchronous_commit": "on",
        "idle_session_timeout": "30s",
        "tcp_keepalives_idle": "2",
        "tcp_user_timeout": "5000",
    }
