"""Commits to a PostgreSQL store that fail, or whose answer is lost."""

from __future__ import annotations

import psycopg
import pytest

from penstock.errors import StoreError
from penstock.store.postgres import postgres_store
from penstock.store.records import MetadataRecord
from tests.support.brokers import some_name
from tests.support.open_stores import committing, some_row
from tests.support.postgres import Cluster, needs_postgres
from tests.support.store_engines import PostgresEngine, schema_of
from tests.support.tcp_proxy import proxied

pytestmark = needs_postgres


def test_commit_whose_answer_was_lost_is_done_once(cluster: Cluster) -> None:
    with proxied(f"127.0.0.1:{cluster.port}") as proxy:
        schema = some_name("store")
        store = postgres_store(f"postgresql://postgres@{proxy.address}/postgres?schema={schema}")
        store.open()
        for number in range(1, 8):
            row = some_row(number, 100 * number)  # Each of another size: one can see which were deleted or replaced.
            things = [MetadataRecord("queue", f"q{number}", b""), MetadataRecord("queue", f"q{number - 1}", None)]
            proxy.loses_answer = number > 1  # The first time statements are prepared, and the answers are to that.
            store.commit(committing(rows=[row], rows_gone=[number - 2], metadata=things))
            assert not proxy.loses_answer
            assert number == 1 or store._space.deleted == len(row.data), "it was there when it was done again"
            assert [row.number for row in store.rows()] == [number - 1, number][number == 1 :]
            assert [thing.key for thing in store.metadata()] == [f"q{number}"]
        store.close()


def test_commit_reports_that_the_server_is_gone_and_succeeds_after_the_return(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    with engine.opened() as store:
        cluster.stop()
        commit = committing(rows=[some_row(1)], metadata=[MetadataRecord("queue", "a", b"")])
        for _ in range(2):
            with pytest.raises(StoreError) as raised:
                store.commit(commit)
            assert str(raised.value).startswith(
                f"cannot reach the store in schema '{schema_of(engine)}' of database 'postgres' at '{cluster.folder}'"
            )
            assert str(raised.value).endswith("; is the server running there?")
        cluster.start()
        store.commit(commit)
        store.commit(commit)
    found = engine.contents()
    assert (found.rows, found.things) == ([some_row(1)], [MetadataRecord("queue", "a", b"")])


def test_tables_locked_by_another_session_fail_a_commit_that_may_be_retried(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    with engine.opened() as store, psycopg.connect(cluster.url()) as other:
        store._session.set("lock_timeout", "50ms")
        other.execute(f'LOCK TABLE "{schema_of(engine)}".rows'.encode())
        with pytest.raises(StoreError, match=r"another program has locked its tables$"):
            store.commit(committing(rows=[some_row(1)]))
        other.rollback()
        store.commit(committing(rows=[some_row(1)]))
        assert list(store.rows()) == [some_row(1)]
