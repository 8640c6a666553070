"""The count of transactions in a store, and how many are missing."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.commit_counter import (
    CommitCounter,
    Count,
    count_in,
    count_transaction,
    lost_transactions,
    missing,
    read_count,
)
from penstock.store.sqlite import FILE
from tests.support.open_stores import committing, opened, some_row


@pytest.mark.parametrize(
    ("known", "found", "said"),
    [
        (Count(5, 9), Count(4, 9), "the last transaction of 5, which brought no message"),
        (Count(1500, 9), Count(3, 8), "the last 1,497 transactions of 1,500, which brought 1 message"),
        (Count(5, 3000), Count(3, 1000), "the last 2 transactions of 5, which brought 2,000 messages"),
    ],
)
def test_transaction_count_says_how_much_is_lost(known: Count, found: Count, said: str) -> None:
    assert lost_transactions(known, found) == said


def test_transaction_count_grows_with_each_commit_and_is_read_without_a_change(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        before = count_in(tmp_path / FILE)
        for number in (1, 2):
            store.commit(committing(rows=[some_row(number)]))
    files = sorted(path.name for path in tmp_path.iterdir())
    assert count_in(tmp_path / FILE).transactions == before.transactions + 2
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_transaction_count_is_refused_to_a_process_whose_opening_is_not_the_last(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as connection:
        count, opening = read_count(connection)
        following = Count(count.transactions + 1, count.messages)
        assert not count_transaction(connection, following, opening - 1)
        assert read_count(connection)[0] == count
        assert count_transaction(connection, following, opening)
        assert read_count(connection)[0] == following


def test_transaction_count_behind_its_counter_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(1)]))
    counter = CommitCounter(tmp_path)
    missing(tmp_path / FILE, counter)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("UPDATE sums SET count = count - 1 WHERE count > 0 AND last > 0")
    with pytest.raises(
        StoreError, match=r"has lost the last transaction of .*'penstock store repair' saves what is left"
    ):
        missing(tmp_path / FILE, counter)
