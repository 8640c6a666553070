"""The lease of a PostgreSQL store: refusals, takeovers, and a broker that lost the lease."""

from __future__ import annotations

import os
import socket

import pytest

from penstock.errors import StoreBusy, StoreLost
from penstock.store.postgres import postgres_store
from penstock.store.records import StoreTransaction
from tests.support.brokers import eventually, in_background
from tests.support.open_stores import committing, contents, some_row
from tests.support.postgres import Cluster, needs_postgres
from tests.support.store_engines import PostgresEngine, end_session_of
from tests.support.store_writer_process import LOST
from tests.support.store_writers import Writer, assert_state_of, writing

pytestmark = needs_postgres


ROUNDS = int(os.environ.get("PENSTOCK_FAILOVERS", "3"))
"""Brokers in a row that die, or wake up too late; 50 were run."""


def test_second_broker_is_refused_with_the_name_of_the_first(engine: PostgresEngine) -> None:
    with engine.opened():
        second = engine.make()
        with pytest.raises(StoreBusy) as raised:
            second.open()
        said = str(raised.value)
        assert f"is in use by another broker: process {os.getpid()} on host '{socket.gethostname()}', since 2" in said
    second.open()
    second.close()


def test_standby_gets_the_lease_after_the_release(engine: PostgresEngine) -> None:
    second = engine.make()
    first = engine.make()
    first.open()
    assert not second.try_open()
    assert (second.holder.process, second.holder.epoch) == (os.getpid(), 1)

    def stand_by() -> None:
        assert second.try_open(60)

    with in_background(stand_by):
        first.commit(committing(rows=[some_row(1)]))
        first.close()
    assert contents(second).rows == [some_row(1)]
    second.close()


def test_schemas_of_the_same_database_are_separate_stores(cluster: Cluster) -> None:
    with PostgresEngine(cluster).opened() as one, PostgresEngine(cluster).opened() as other:
        one.commit(committing(rows=[some_row(1)]))
        assert list(other.rows()) == []


def test_broker_whose_session_was_ended_continues_in_a_new_session(cluster: Cluster, engine: PostgresEngine) -> None:
    with engine.opened() as store:
        for number in range(1, 6):
            store.commit(committing(rows=[some_row(number)]))
            end_session_of(cluster, engine)
        assert [row.number for row in store.rows()] == [1, 2, 3, 4, 5]
        end_session_of(cluster, engine)
        assert store.pages(1, 0, 1) == []
        end_session_of(cluster, engine)
        assert store.usage().used > 0
        end_session_of(cluster, engine)
        assert store.reclaim_space() is False


def test_broker_whose_lease_was_taken_never_writes_again(cluster: Cluster, engine: PostgresEngine) -> None:
    first, second = engine.make(), engine.make()
    first.open()
    first.commit(committing(rows=[some_row(1)]))
    assert not second.try_open()
    with in_background(lambda: eventually(lambda: second.try_open(1), "the lease")):
        end_session_of(cluster, engine)
    for _ in range(2):
        with pytest.raises(
            StoreLost, match=r"another broker has taken over the store in .*: process \d+ on host .*; this"
        ):
            first.commit(committing(rows=[some_row(2)]))
    with pytest.raises(StoreLost):
        first.reclaim_space()
    with pytest.raises(StoreLost):
        list(first.rows())
    assert contents(second).rows == [some_row(1)]
    second.close()
    with pytest.raises(StoreLost):  # It is nobody's now, and yet not the first one's: others were there since.
        first.commit(committing(rows=[some_row(2)]))
    first.close()
    assert engine.contents().rows == [some_row(1)]


def test_lease_taken_in_spite_of_a_live_session_is_refused_in_the_commit(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    """As it is behind a pooler that gives one session to two brokers: the lock then means nothing, the epoch does."""
    with engine.opened() as store:
        schema = postgres_store(engine.url).address.schema
        cluster.ask(f'UPDATE "{schema}".lease SET epoch = epoch + 1')
        with pytest.raises(StoreLost):
            store.commit(committing(rows=[some_row(1)]))
        with pytest.raises(StoreLost):
            store.commit(StoreTransaction())
    assert engine.contents().rows == []


def test_released_lease_is_free_at_once_and_counts_as_a_death(engine: PostgresEngine) -> None:
    first, second = engine.make(), engine.make()
    first.open()
    first.commit(committing(rows=[some_row(1)]))
    first.release_lease()
    assert second.try_open()
    assert not second.was_left, "the first one may have delivered after its last commit"
    for use in (first.reclaim_space, first.usage, lambda: first.commit(committing(rows=[some_row(2)]))):
        with pytest.raises(StoreLost):
            use()
    assert contents(second).rows == [some_row(1)]
    second.close()


def test_released_lease_that_was_not_taken_comes_back_with_the_next_use(engine: PostgresEngine) -> None:
    other = engine.make()
    with engine.opened() as store:
        for number in range(1, 4):
            store.release_lease()
            store.release_lease()
            store.commit(committing(rows=[some_row(number)]))
            assert not other.try_open()
        assert [row.number for row in store.rows()] == [1, 2, 3]
    other.close()


def test_idle_broker_detects_that_the_lease_was_taken(cluster: Cluster, engine: PostgresEngine) -> None:
    with engine.opened() as store:
        schema = postgres_store(engine.url).address.schema
        cluster.ask(f'UPDATE "{schema}".lease SET epoch = epoch + 1')
        with pytest.raises(StoreLost):
            store.reclaim_space()


def test_broker_that_idles_for_long_loses_the_lease_to_a_standby(engine: PostgresEngine) -> None:
    first, second = engine.make(), engine.make()
    first.open()
    first.commit(committing(rows=[some_row(1)]))
    first._session.set("idle_session_timeout", "100ms")  # 30 s otherwise
    assert second.try_open(60)
    with pytest.raises(StoreLost):
        first.commit(committing(rows=[some_row(2)]))
    assert contents(second).rows == [some_row(1)]
    second.close()


def test_broker_that_idles_for_long_goes_on_without_a_standby(cluster: Cluster, engine: PostgresEngine) -> None:
    with engine.opened() as store:
        store._session.set("idle_session_timeout", "100ms")
        backend = store._session.pid
        eventually(lambda: not cluster.ask("SELECT 1 FROM pg_stat_activity WHERE pid = %s", backend), "the end")
        store.commit(committing(rows=[some_row(1)]))
        assert list(store.rows()) == [some_row(1)]


@pytest.mark.timeout(400 + 5 * ROUNDS)
def test_killed_broker_is_replaced_with_all_confirmed_data(engine: PostgresEngine) -> None:
    active = Writer(engine.url)
    active.await_event("open")
    for _ in range(ROUNDS):
        with_next = Writer(engine.url)
        with_next.await_event("waiting")
        active.await_commits()
        active.kill()
        epoch, found = with_next.await_event("open").split()
        assert active.committed() <= int(found) <= active.committed() + 1
        assert int(epoch) == active.epoch + 1
        active = with_next
    last = active.await_commits()
    active.kill()
    assert_state_of(engine.contents(), last, active.committed() + 1)


@pytest.mark.slow
@pytest.mark.timeout(400 + 5 * ROUNDS)
def test_broker_that_was_stopped_and_resumes_after_a_takeover_writes_no_data(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    schema = postgres_store(engine.url).address.schema
    active = Writer(engine.url)
    active.await_event("open")
    for _ in range(ROUNDS):
        with_next = Writer(engine.url)
        with_next.await_event("waiting")
        active.await_commits()
        active.stop()
        end_session_of(cluster, engine)
        found = int(with_next.await_event("open").split()[1])
        with_next.await_commits()
        active.resume()
        assert active.wait() == LOST
        assert active.committed() <= found
        rows = cluster.ask(
            f'SELECT count(*) FROM "{schema}".rows WHERE first <= %s AND number > %s', active.epoch, found
        )
        position = cluster.ask(f'SELECT delivered FROM "{schema}".positions')
        assert (rows, position) == ([(0,)], [(with_next.epoch,)])
        active = with_next
        active.await_commits()
    active.kill()
    assert_state_of(engine.contents(), active.committed(), active.committed() + 1)


def test_undisturbed_writer_leaves_the_state_of_the_last_commit(engine: PostgresEngine) -> None:
    with writing(engine.url) as writer:
        last = writer.await_commits(25)
    assert_state_of(engine.contents(), last, writer.committed() + 1)


def test_store_is_left_in_order_by_a_broker_that_wrote_the_recovered_state(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    store = engine.make()
    store.open()
    assert store.was_left
    store.commit(committing(rows=[some_row(1)]))
    end_session_of(cluster, engine)  # As a kill does.
    for commits in (False, True):  # The first only looks, as `penstock store check`.
        following = engine.make()
        following.open()
        assert not following.was_left
        if commits:
            following.commit(committing(rows=[some_row(2)]))
        following.close()
    last = engine.make()
    last.open()
    assert last.was_left
    last.close()
    with pytest.raises(StoreLost):
        store.commit(committing(rows=[some_row(3)]))
