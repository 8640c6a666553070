"""The contract of all store engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import StoreError
from penstock.store.records import (
    MessageRow,
    MetadataRecord,
    QueuePosition,
    RowBodies,
    SettlementRecord,
    StoreTransaction,
)
from tests.profiles import examples
from tests.support.open_stores import (
    Contents,
    committing,
    contents,
    some_note,
    some_octets,
    some_page,
    some_piece,
    some_row,
)
from tests.support.postgres import PROGRAMS, Cluster
from tests.support.store_engines import Engine, Model, Place, PostgresEngine, SqliteEngine, commits


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield lambda: SqliteEngine(tmp_path)
        return
    if PROGRAMS is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    cluster: Cluster = request.getfixturevalue("cluster")
    yield lambda: PostgresEngine(cluster)


@pytest.fixture
def engine(place: Place) -> Engine:
    return place()


@settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=st.lists(st.tuples(commits(), st.sampled_from(["", "", "again", "reopen"])), max_size=8))
def test_store_agrees_with_the_model_after_any_history(
    place: Place, history: list[tuple[StoreTransaction, str]]
) -> None:
    engine, model = place(), Model()
    store = engine.make()
    store.open()
    try:
        for commit, then in history:
            store.commit(commit)
            model.commit(commit)
            if then == "again":
                before = contents(store)
                store.commit(commit)
                assert contents(store) == before
            if then == "reopen":
                store.close()
                store = engine.make()
                store.open()
            assert contents(store) == model.contents()
            for queue, first, most in ((1, 0, 1 << 40), (2, 50, 2000), (2, 0, 0), (0, 0, 1 << 40)):
                assert store.pages(queue, first, most) == model.pages(queue, first, most)
                for count in (1, 3):
                    assert store.page_heads(queue, first, count) == model.page_heads(queue, first, count)
    finally:
        store.close()
    assert engine.contents() == model.contents()


def test_record_written_again_has_the_newest_state(engine: Engine) -> None:
    with engine.opened() as store:
        store.commit(
            committing(
                rows=[some_row(1), some_page(2, 3, 4)], settlements=[some_note(5)], positions=[QueuePosition(3, 1, 1)]
            )
        )
        after = committing(
            rows=[some_page(1, 3, 9), some_row(2, 9000)],
            settlements=[some_note(5, 99)],
            positions=[QueuePosition(3, 2, 2, 9)],
        )
        store.commit(after)
    assert engine.contents() == Contents([], after.positions, after.settlements, after.rows)


def test_repeated_commit_changes_nothing_unless_another_commit_came_between(engine: Engine) -> None:
    with engine.opened() as store:
        store.commit(
            committing(
                rows=[some_row(1), some_row(2)],
                settlements=[some_note(3)],
                metadata=[MetadataRecord("queue", "a", b"1")],
            )
        )
        commit = committing(
            rows=[some_row(4), some_row(5)], rows_gone=[1, 5], settlements_gone=[3], positions=[QueuePosition(1, 2, 3)],
            metadata=[
                MetadataRecord("queue", "a", None),
                MetadataRecord("queue", "a", b"3"),
                MetadataRecord("queue", "b", b"2"),
            ],
        )  # fmt: skip
        for _ in range(3):
            store.commit(commit)
            assert [row.number for row in store.rows()] == [2, 4]
            assert [thing.data for thing in store.metadata()] == [b"3", b"2"]


def test_pages_are_found_by_the_sequences_of_the_first_messages(engine: Engine) -> None:
    with engine.opened() as store:
        pages = [some_page(number, 7, 10 * number) for number in range(1, 7)]
        others = [some_row(8), some_page(9, 6, 30)]
        store.commit(committing(rows=[*pages, *others]))
        store.commit(committing(rows=[some_page(7, 7, 35)], pages_gone=[(7, 20, 40), (0, 0, 1000), (5, 1, 99)]))
        assert [row.number for row in store.rows()] == [1, 5, 6, 8, 9]
        assert store.pages(7, 0, 1 << 20) == [pages[0], pages[4], pages[5]]
        store.commit(committing(pages_gone=[(7, 0, 1 << 60)]))
        assert store.pages(7, 0, 1 << 20) == []


def test_large_row_comes_back(engine: Engine) -> None:
    large = MessageRow(1, some_octets(1, 20_000_000))
    page = MessageRow(2, some_octets(2, 10_000_000), 7, 1, 10, 10_000_000)
    with engine.opened() as store:
        store.commit(committing(rows=[large, page]))
    with engine.opened() as store:
        assert list(store.rows()) == [large, page._replace(data=b"")]
        assert store.pages(7, 0, 0) == [page]


def test_empty_row_and_an_empty_note_come_back(engine: Engine) -> None:
    with engine.opened() as store:
        store.commit(
            committing(
                rows=[MessageRow(1, b"")],
                settlements=[SettlementRecord(2, b"")],
                metadata=[MetadataRecord("queue", "", b"")],
            )
        )
    assert engine.contents() == Contents(
        [MetadataRecord("queue", "", b"")],
        [],
        [SettlementRecord(2, b"")],
        [MessageRow(1, b"")],
    )


def test_largest_numbers_come_back(engine: Engine) -> None:
    most = (1 << 63) - 1
    row, position = MessageRow(most - 1, b"x", most, most, most, most), QueuePosition(most, most, most, most)
    with engine.opened() as store:
        store.commit(committing(rows=[row], positions=[position], settlements=[SettlementRecord(most - 1, b"x")]))
    assert engine.contents() == Contents([], [position], [SettlementRecord(most - 1, b"x")], [row])


def test_metadata_records_come_in_the_order_of_declaration(engine: Engine) -> None:
    things = [MetadataRecord("binding", f"{at * 7919 % 20_000:05}/{'k' * 200}", b"%d" % at) for at in range(20_000)]
    with engine.opened() as store:
        store.commit(committing(metadata=things))
        store.commit(committing(metadata=[things[7]._replace(data=b"newer"), things[3]._replace(data=None)]))
        things[7] = things[7]._replace(data=b"newer")
        del things[3]
        assert list(store.metadata()) == things


def test_more_rows_and_pages_than_a_single_reading_takes_are_returned_in_order(engine: Engine) -> None:
    rows = [MessageRow(number, b"%d" % number) for number in range(1, 9002)]
    pages = [MessageRow(10_000 + at, b"x" * 100, 5, 1000 - at, 1, 1) for at in range(1000)]
    with engine.opened() as store:
        store.commit(committing(rows=[*pages, *rows]))
        assert [row for row in store.rows() if row.queue == 0] == rows
        assert store.pages(5, 0, 1 << 30) == pages[::-1]
        assert store.pages(5, 1, 45_050) == pages[::-1][:450]
        store.commit(committing(rows_gone=[row.number for row in rows]))
        assert [row.number for row in store.rows()] == [page.number for page in pages]


def test_rows_of_many_megabytes_are_read_a_few_at_a_time(engine: Engine) -> None:
    rows = [MessageRow(number, bytes([number]) * 3_000_000) for number in range(1, 11)]
    with engine.opened() as store:
        for row in rows:
            store.commit(committing(rows=[row]))
        reading = store.rows()
        assert next(reading) == rows[0]
        store.commit(committing(settlements=[some_note(99)]))  # Who reads does not keep others from writing.
        assert list(reading) == rows[1:]


def test_used_room_grows_and_shrinks_with_stored_bytes(engine: Engine) -> None:
    with engine.opened() as store:
        empty = store.usage()
        for number in range(1, 31):
            store.commit(committing(rows=[some_row(number, 1_000_000)]))
        full = store.usage()
        store.commit(committing(rows_gone=list(range(1, 31))))
        while store.reclaim_space():
            pass
        after = store.usage()
    assert full.used - empty.used > 29_000_000
    assert full.taken >= full.used
    assert after.used - empty.used < 5_000_000
    assert after.taken < full.taken / 2


def test_store_that_was_never_opened_or_is_closed_reports_that(engine: Engine) -> None:
    store = engine.make()
    with pytest.raises(StoreError, match=r"is not open$"):
        store.commit(StoreTransaction())
    store.open()
    store.close()
    store.close()
    for look in (store.metadata, store.rows, store.settlements, store.positions):
        with pytest.raises(StoreError, match=r"is not open$"):
            list(look())
    with pytest.raises(StoreError, match=r"is not open$"):
        store.pages(1, 0, 0)


def test_pieces_are_returned_in_order_without_the_data_and_each_by_key(engine: Engine) -> None:
    pieces = [some_piece(7, at, 9_000) for at in range(3)]
    with engine.opened() as store:
        store.commit(committing(pieces=[some_piece(9, 0), *reversed(pieces)]))
        assert [(piece.body, piece.at, piece.size, piece.data) for piece in store.pieces()] == [
            (7, 0, 9_000, b""), (7, 1, 9_000, b""), (7, 2, 9_000, b""), (9, 0, 1000, b"")
        ]  # fmt: skip
        assert [store.piece(7, at) for at in range(3)] == [piece.data for piece in pieces]
        assert store.damaged == []


def test_pieces_of_a_body_are_deleted_in_parts_and_the_rest_stay(engine: Engine) -> None:
    with engine.opened() as store:
        store.commit(committing(pieces=[some_piece(body, at) for body in (1, 2, 3) for at in range(5)]))
        store.commit(committing(pieces_gone=[(2, 0, 2)]))
        assert [piece.at for piece in store.pieces() if piece.body == 2] == [3, 4]
        store.commit(committing(pieces_gone=[(2, 3, 9), (4, 0, 9)]))
        assert [piece.body for piece in store.pieces()] == [1] * 5 + [3] * 5


def test_missing_piece_is_none_and_reported(engine: Engine) -> None:
    with engine.opened() as store:
        store.commit(committing(pieces=[some_piece(1, 0)]))
        assert store.piece(1, 1) is None
        assert [str(damage.what) for damage in store.damaged] == ["piece 1 of body 1"]
        assert store.damaged[0].why == "it is missing"


def test_bodies_of_a_row_are_deleted_with_the_row_and_bodies_of_pages_with_the_pages(engine: Engine) -> None:
    bodies = [RowBodies(number, (number, 70 + number)) for number in (1, 2, 3, 4)]
    with engine.opened() as store:
        rows = [some_row(1), some_page(2, 9, 10), some_page(3, 9, 20), some_row(4)]
        store.commit(committing(rows=rows, row_bodies=bodies))
        assert list(store.row_bodies()) == bodies
        store.commit(committing(rows_gone=[4], pages_gone=[(9, 15, 25)]))
        assert list(store.row_bodies()) == bodies[:2]
