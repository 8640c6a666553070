"""Commits to SQLite: committed records come back unchanged, and failed commits can be repeated."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from penstock.errors import StoreError, StoreFull
from penstock.store.records import MessageRow, MetadataRecord, QueuePosition, SettlementRecord, StoreTransaction
from penstock.store.sqlite import SqliteStore
from tests.support.open_stores import (
    EMPTY,
    committing,
    contents,
    everything,
    filled,
    opened,
    some_note,
    some_page,
    some_row,
)


def test_committed_records_come_back_after_reopening(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(everything())
    with opened(tmp_path) as store:
        found = contents(store)
        assert store.damaged == []
    assert found.rows == [some_row(1), some_page(2, 7, 100)]
    assert found.notes == [some_note(3)]
    assert found.things == [MetadataRecord("queue", "orders", b"as it is")]
    assert found.positions == [QueuePosition(7, 12, 11)]


def test_metadata_are_returned_in_the_order_of_declaration_in_the_newest_state(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(metadata=[MetadataRecord("queue", name, b"1") for name in ("b", "a", "c")]))
        store.commit(committing(metadata=[MetadataRecord("queue", "b", b"2"), MetadataRecord("exchange", "b", b"3")]))
        store.commit(
            committing(metadata=[MetadataRecord("queue", "b", None), MetadataRecord("queue", "b", b"2")])
        )  # Never gone.
        store.commit(committing(metadata=[MetadataRecord("queue", "a", None)]))
        store.commit(committing(metadata=[MetadataRecord("queue", "a", b"4")]))
        found = [(thing.kind, thing.key, thing.data) for thing in store.metadata()]
    assert found == [("queue", "b", b"2"), ("queue", "c", b"1"), ("exchange", "b", b"3"), ("queue", "a", b"4")]


def test_names_that_are_no_text_are_returned_unchanged(tmp_path: Path) -> None:
    thing = MetadataRecord("queue", b"\xff\x00\xc3(".decode(errors="surrogateescape"), b"\x00")
    with opened(tmp_path) as store:
        store.commit(committing(metadata=[thing]))
        assert list(store.metadata()) == [thing]


def test_rows_of_pages_are_listed_without_the_data(tmp_path: Path) -> None:
    page = some_page(2, 7, 100)
    with opened(tmp_path) as store:
        store.commit(committing(rows=[page, some_row(1)]))
        assert list(store.rows()) == [some_row(1), page._replace(data=b"")]


def test_pages_are_returned_in_order_up_to_a_number_of_bytes_but_at_least_a_page(tmp_path: Path) -> None:
    pages = [some_page(20 - at, 7, 10 * at) for at in range(5)]
    with opened(tmp_path) as store:
        store.commit(committing(rows=[*pages, some_page(50, 8, 0), some_row(51)]))
        assert store.pages(7, 0, 1_000_000) == pages
        assert store.pages(7, 0, 3000) == pages[:3]
        assert store.pages(7, 0, 2999) == pages[:2]
        assert store.pages(7, 11, 0) == pages[2:3]
        assert store.pages(7, 41, 1_000_000) == store.pages(9, 0, 1_000_000) == []


def test_page_heads_begin_with_the_page_that_may_have_the_sequence(tmp_path: Path) -> None:
    pages = [some_page(20 - at, 7, 10 * at) for at in range(1, 5)]
    heads = [page._replace(data=b"") for page in pages]
    with opened(tmp_path) as store:
        store.commit(committing(rows=[*pages, some_page(50, 8, 0), some_row(51)]))
        assert store.page_heads(7, 0, 9) == store.page_heads(7, 10, 9) == store.page_heads(7, 19, 9) == heads
        assert store.page_heads(7, 20, 2) == store.page_heads(7, 29, 2) == heads[1:3]
        assert store.page_heads(7, 1_000, 9) == heads[3:]
        assert store.page_heads(9, 0, 9) == []


@pytest.mark.usefixtures("in_database")
def test_full_store_writes_no_part_of_a_commit_and_accepts_the_commit_with_room(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(everything())
        before = contents(store)
        large = committing(
            rows=[some_row(10), some_row(11, 1_000_000)], settlements_gone=[3], positions=[QueuePosition(7, 20, 20)]
        )
        bound(store, 40)
        for _ in range(3):
            with pytest.raises(StoreFull, match=r"^cannot write the store '.*messages\.sqlite': there is no room left"):
                store.commit(large)
            assert contents(store) == before
        store.commit(committing(rows=[some_row(12, 10)]))  # What fits goes on.
        bound(store, 1 << 30)
        store.commit(large)
        assert [row.number for row in store.rows()] == [1, 2, 10, 11, 12]
        assert (list(store.settlements()), store.check()) == ([], [])


def bound(store: SqliteStore, pages: int) -> None:
    """Let SQLite itself say that the disk is full, beyond so many pages."""
    store._connection.execute(f"PRAGMA max_page_count = {pages}")


def test_store_that_another_program_writes_reports_that_and_continues_afterwards(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"^cannot write the store '.*': another program is using it$"):
            store.commit(everything())
        other.execute("ROLLBACK")
        other.close()
        store.commit(everything())
        assert len(list(store.rows())) == 2


def test_store_that_was_never_opened_or_is_closed_reports_that(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreError, match=r"is not open$"):
        store.commit(StoreTransaction())
    store.open()
    store.close()
    store.close()
    with pytest.raises(StoreError, match=r"is not open$"):
        list(store.rows())


def test_rows_are_read_singly(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(number) for number in range(1, 4)]))
        rows = store.rows()
        assert next(rows) == some_row(1)
        assert [*rows] == [some_row(2), some_row(3)]


def test_closed_store_is_a_file_with_a_count_that_only_the_owner_can_read(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    assert sorted((path.name, path.stat().st_mode & 0o777) for path in (tmp_path / "data").iterdir()) == [
        ("messages.commits", 0o600),
        ("messages.sqlite", 0o600),
    ]


def test_open_store_can_be_read_by_other_processes(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[MessageRow(1, b"x")]))
        other = sqlite3.connect(f"{store.path.as_uri()}?mode=ro", uri=True)
        assert other.execute("SELECT number, data FROM rows").fetchall() == [(1, b"x")]
        other.close()
        store.commit(committing(rows=[MessageRow(2, b"y")]))


def test_lost_connection_is_opened_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(everything())
        store._connection.close()
        with pytest.raises(StoreError, match=r"^cannot write the store '.*': Cannot operate on a closed database\.$"):
            store.commit(committing(rows=[some_row(10)]))
        store.commit(committing(rows=[some_row(10)]))
        assert [row.number for row in store.rows()] == [1, 2, 10]


def test_deleted_records_are_gone_even_if_new_in_the_same_commit(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(1), some_row(2)], settlements=[some_note(3), some_note(4)]))
        store.commit(committing(rows=[some_row(5)], rows_gone=[1, 5, 99], settlements_gone=[4, 98], positions_gone=[3]))
        found = contents(store)
    assert (found.rows, found.notes) == ([some_row(2)], [some_note(3)])


def test_commit_written_twice_is_stored_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(
            committing(metadata=[MetadataRecord("queue", "old", b"x"), MetadataRecord("queue", "orders", b"x")])
        )
        store.commit(everything())
        once = contents(store)
        store.commit(everything())
        assert contents(store) == once
        assert store.check() == []


def test_empty_commit_is_a_commit(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(StoreTransaction())
        assert contents(store) == EMPTY


def test_record_that_cannot_be_meant_leaves_no_transaction_behind(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(TypeError):
            store.commit(committing(rows=[some_row(1)], settlements=[SettlementRecord(2, None)]))  # type: ignore[arg-type]
        store.commit(committing(rows=[some_row(3)]))
        assert [row.number for row in store.rows()] == [3]
