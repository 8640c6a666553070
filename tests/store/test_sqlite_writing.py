"""Commits to SQLite: written once, in order, and with what is deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.store.store import MetadataRecord, SettlementRecord, StoreTransaction
from tests.support.open_stores import EMPTY, committing, contents, everything, opened, some_note, some_row


def test_what_is_gone_is_gone_and_what_is_both_new_and_gone_too(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(1), some_row(2)], settlements=[some_note(3), some_note(4)]))
        store.commit(committing(rows=[some_row(5)], rows_gone=[1, 5, 99], settlements_gone=[4, 98], positions_gone=[3]))
        found = contents(store)
    assert (found.rows, found.notes) == ([some_row(2)], [some_note(3)])


def test_commit_that_is_written_twice_is_written_once(tmp_path: Path) -> None:
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
