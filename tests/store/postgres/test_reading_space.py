"""Space of a PostgreSQL store: what is live, what is deleted, and the vacuum that frees it."""

from __future__ import annotations

from penstock.store.postgres import postgres_store
from penstock.store.postgres.reading import DELETED_LEAST
from penstock.store.postgres.store import PostgresStore
from tests.support.brokers import eventually
from tests.support.open_stores import committing, some_row
from tests.support.postgres import needs_postgres
from tests.support.store_engines import PostgresEngine

pytestmark = needs_postgres
LARGE = 3_000_000


def filled(engine: PostgresEngine, rows: int) -> PostgresStore:
    store = postgres_store(engine.url)
    store.open()
    for number in range(1, rows + 1):
        store.commit(committing(rows=[some_row(number, LARGE)]))
    return store


def test_space_counts_what_is_live_and_what_was_deleted(engine: PostgresEngine) -> None:
    store = filled(engine, 2)
    assert (store._space.live, store._space.deleted) == (2 * LARGE, 0)
    store.commit(committing(rows_gone=[1]))
    assert (store._space.live, store._space.deleted) == (LARGE, LARGE)
    assert store.usage().taken >= store.usage().used
    store.close()


def test_space_of_little_that_was_deleted_is_left_alone(engine: PostgresEngine) -> None:
    store = filled(engine, 2)
    store.commit(committing(rows_gone=[1]))
    assert not store.reclaim_space()
    assert store._space.deleted == LARGE
    store.close()


def test_space_of_much_that_was_deleted_can_be_used_again_after_a_vacuum(engine: PostgresEngine) -> None:
    count = DELETED_LEAST // LARGE + 2
    store = filled(engine, count)
    store.commit(committing(rows_gone=list(range(1, count + 1))))
    assert store._space.deleted > DELETED_LEAST
    eventually(lambda: not store.reclaim_space() and store._space.deleted == 0, "the vacuum has ended")
    assert store._space.live == 0
    store.close()
