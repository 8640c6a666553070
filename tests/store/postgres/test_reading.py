"""Reading a PostgreSQL store: damaged records are reported, and the others are read.

Space of a PostgreSQL store: what is live, what is deleted, and the vacuum that frees it.
"""

from __future__ import annotations

from penstock.store.postgres import postgres_store
from penstock.store.postgres.reading import DELETED_LEAST
from penstock.store.postgres.store import PostgresStore
from penstock.store.records import MetadataRecord, QueuePosition
from tests.support.brokers import eventually
from tests.support.open_stores import committing, some_note, some_octets, some_page, some_row
from tests.support.postgres import Cluster, needs_postgres
from tests.support.store_engines import PostgresEngine, end_session_of, schema_of

pytestmark = needs_postgres


def filled(store: PostgresStore) -> None:
    for number in range(1, 20):
        store.commit(
            committing(
                rows=[some_row(number, 5000), some_page(100 + number, 1, number, 5000)],
                settlements=[some_note(200 + number)],
                metadata=[MetadataRecord("queue", f"q{number}", some_octets(number, 100))],
                positions=[QueuePosition(number, 5, 5)],
            )
        )  # fmt: skip


def test_changed_record_is_reported_and_the_rest_is_there(cluster: Cluster, engine: PostgresEngine) -> None:
    schema = schema_of(engine)
    with engine.opened() as store:
        filled(store)
        for change in (
            "rows SET data = 'other' WHERE number IN (3, 104)",
            "rows SET first = 77 WHERE number = 105",
            "notes SET data = 'other' WHERE number = 205",
            "things SET key = 'other' WHERE key = 'q6'",
            "positions SET tail = 6 WHERE queue = 7",
        ):
            cluster.ask(f'UPDATE "{schema}".{change}')
        assert [row.number for row in store.rows() if row.queue == 0] == [1, 2, *range(4, 20)]
        assert len(list(store.settlements())) == len(list(store.metadata())) == len(list(store.positions())) == 18
        assert [page.number for page in store.pages(1, 4, 20_000)] == [106, 107, 108]
        told = {damage.what for damage in store.damaged}
        assert told == {"row 3", "page 104 of queue number 1", "row 105", "note 205", "thing 6", "position 7"}
        assert {damage.why for damage in store.damaged} == {"its checksum is wrong"}
        assert {damage.what for damage in store.check()} == told


def test_files_that_the_server_finds_damaged_cost_only_the_records_in_these_files(
    cluster: Cluster, engine: PostgresEngine
) -> None:
    schema = schema_of(engine)
    with engine.opened() as store:
        filled(store)
    ((path,),) = cluster.ask(
        "SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE oid = %s::regclass", f'"{schema}".rows'
    )
    cluster.stop()
    file = cluster.data / path
    octets = bytearray(file.read_bytes())
    assert len(octets) > 3 * 8192
    octets[8192 + 5000] ^= 1
    file.write_bytes(octets)
    cluster.start()
    with engine.opened() as store:
        rows = [row for row in store.rows() if row.queue == 0]
        pages = store.pages(1, 0, 1 << 30)
        lost = {damage.what for damage in store.damaged}
        assert 1 <= len(lost) <= 4
        assert len(rows) + len(pages) + len(lost) == 38
        assert all(row == some_row(row.number, 5000) for row in rows)
        assert all("invalid page in block 1" in damage.why for damage in store.damaged)
        assert {damage.what for damage in store.check()} == lost


def test_rows_are_read_on_in_a_new_session(cluster: Cluster, engine: PostgresEngine) -> None:
    rows = [some_row(number, 1_000_000) for number in range(1, 21)]
    with engine.opened() as store:
        store.commit(committing(rows=rows))
        reading = store.rows()
        found = [next(reading)]
        end_session_of(cluster, engine)
        assert found + list(reading) == rows


LARGE = 3_000_000


def filled_with(engine: PostgresEngine, rows: int) -> PostgresStore:
    store = postgres_store(engine.url)
    store.open()
    for number in range(1, rows + 1):
        store.commit(committing(rows=[some_row(number, LARGE)]))
    return store


def test_space_counts_live_and_deleted_bytes(engine: PostgresEngine) -> None:
    store = filled_with(engine, 2)
    assert (store._space.live, store._space.deleted) == (2 * LARGE, 0)
    store.commit(committing(rows_gone=[1]))
    assert (store._space.live, store._space.deleted) == (LARGE, LARGE)
    assert store.usage().taken >= store.usage().used
    store.close()


def test_space_of_little_that_was_deleted_is_left_alone(engine: PostgresEngine) -> None:
    store = filled_with(engine, 2)
    store.commit(committing(rows_gone=[1]))
    assert not store.reclaim_space()
    assert store._space.deleted == LARGE
    store.close()


def test_space_of_much_that_was_deleted_can_be_used_again_after_a_vacuum(engine: PostgresEngine) -> None:
    count = DELETED_LEAST // LARGE + 2
    store = filled_with(engine, count)
    store.commit(committing(rows_gone=list(range(1, count + 1))))
    assert store._space.deleted > DELETED_LEAST
    eventually(lambda: not store.reclaim_space() and store._space.deleted == 0, "the vacuum has ended")
    assert store._space.live == 0
    store.close()
