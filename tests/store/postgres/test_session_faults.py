"""Errors of PostgreSQL in one sentence with advice, and without passwords."""

from __future__ import annotations

import pytest

from penstock.errors import StoreError, StoreFull
from penstock.store.postgres import postgres_store
from penstock.store.store import QueuePosition
from tests.support.brokers import some_name
from tests.support.faults import mount
from tests.support.open_stores import committing, contents, some_note, some_row
from tests.support.postgres import Cluster, needs_postgres, refusal, small_disk
from tests.support.store_engines import PostgresEngine, schema_of

pytestmark = needs_postgres


def test_wrong_password_is_told_and_not_shown(cluster: Cluster) -> None:
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


def test_database_or_a_user_that_is_not_there_is_named_with_what_to_do(cluster: Cluster) -> None:
    assert refusal(cluster.url("nowhere")).endswith(
        'database "nowhere" does not exist; create it with: createdb, or give another database in the URL'
    )
    assert refusal(cluster.url(user="nobody-there")).endswith(
        'role "nobody-there" does not exist; create it with: createuser, or give another user in the URL'
    )


def test_database_that_may_only_be_read_is_refused_at_start_and_told_at_run_time(cluster: Cluster) -> None:
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


def test_disk_that_is_full_is_told_and_takes_the_same_commit_when_there_is_room(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    with small_disk(cluster) as folder, engine.opened() as store:
        cluster.ask("DROP TABLESPACE IF EXISTS small")
        cluster.ask(f"CREATE TABLESPACE small LOCATION '{folder}'")
        cluster.ask(f'ALTER TABLE "{schema_of(engine)}".rows SET TABLESPACE small')
        store.commit(committing(rows=[some_row(1, 1_000_000)], settlements=[some_note(3)]))
        before = contents(store)
        large = committing(
            rows=[some_row(4), some_row(5, 12_000_000)], settlements_gone=[3], positions=[QueuePosition(7, 20, 20)]
        )
        for _ in range(2):
            with pytest.raises(
                StoreFull, match=r"^cannot write the store in .*: there is no room left for it on the server"
            ):
                store.commit(large)
            assert contents(store) == before
        store.commit(committing(rows=[some_row(6, 10)]))  # What fits goes on.
        mount(folder, "remount,size=64m")
        store.commit(large)
        assert [row.number for row in store.rows()] == [1, 4, 5, 6]
        assert list(store.settlements()) == []
        store.close()
        cluster.ask(f'DROP SCHEMA "{schema_of(engine)}" CASCADE')
        cluster.ask("DROP TABLESPACE small")


def test_table_that_is_gone_is_named(cluster: Cluster, engine: PostgresEngine) -> None:
    with engine.opened() as store:
        cluster.ask(f'DROP TABLE "{schema_of(engine)}".notes')
        with pytest.raises(StoreError, match=r"^cannot read the store in .*: a table of it is missing; restore"):
            list(store.settlements())
        with pytest.raises(StoreError, match=r"^cannot write the store in .*: a table of it is missing; restore"):
            store.commit(committing(settlements=[some_note(1)]))
