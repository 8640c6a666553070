"""Large data is written once, beside the database; no block that may still be read is overwritten."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from penstock.errors import StoreError, StoreFull, StoreLost
from penstock.store.data_file import BLOCK, DATA_FILE, PLACED_BYTES, RETURNED_A_STEP
from penstock.store.directory import DataDirectory
from penstock.store.records import StoreTransaction
from penstock.store.repair import repair
from penstock.store.space import MIB
from penstock.store.sqlite import SqliteStore
from tests.support.open_stores import committing, contents, opened, some_page, some_piece, some_row

LARGE = PLACED_BYTES + 1
"""Octets of data that takes one block more than the least."""
BLOCKS = (LARGE + BLOCK - 1) // BLOCK


def size(directory: Path) -> int:
    return (directory / DATA_FILE).stat().st_size


def taken(directory: Path) -> int:
    return (directory / DATA_FILE).stat().st_blocks * 512


def tidy(store: SqliteStore) -> None:
    while store.reclaim_space():
        pass


def of_each_kind() -> StoreTransaction:
    """Return a transaction with a large row, page and piece, and a small one of each."""
    return committing(
        rows=[some_row(1, LARGE), some_row(2), some_page(3, 7, 1, LARGE), some_page(4, 7, 11)],
        pieces=[some_piece(1, 0, LARGE), some_piece(1, 1)],
    )


def test_large_data_is_in_the_file_and_comes_back(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(9, PLACED_BYTES - 1)], rows_gone=[9]))
        assert not (tmp_path / DATA_FILE).exists()
        commit = of_each_kind()
        store.commit(commit)
        written = contents(store)
        assert store.pages(7, 1, 1 << 20) == commit.rows[2:]
        assert store.pages(7, 1, LARGE) == commit.rows[2:3]
        assert [page.data for page in store.page_heads(7, 1, 9)] == [b"", b""]
    assert size(tmp_path) == (2 * BLOCKS * BLOCK) + LARGE
    assert (tmp_path / DATA_FILE).stat().st_mode & 0o777 == 0o600
    octets = (tmp_path / DATA_FILE).read_bytes()
    assert [octets.find(record.data[:100]) for record in (*commit.rows, *commit.pieces)] == [
        0,
        -1,
        BLOCKS * BLOCK,
        -1,
        2 * BLOCKS * BLOCK,
        -1,
    ]
    with opened(tmp_path) as store:
        assert contents(store) == written
        assert written.rows == commit.rows
        assert list(written.pieces) == commit.pieces
        assert store.check() == store.damaged == []


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_blocks_of_deleted_records_are_used_again(tmp_path: Path, is_opened_again: bool) -> None:
    with opened(tmp_path) as store:
        store.commit(of_each_kind())
        store.commit(committing(rows_gone=[1], pages_gone=[(7, 1, 9)], pieces_gone=[(1, 0, 5)]))
        if is_opened_again:
            store.close()
            store.open()
        before = size(tmp_path)
        for number in range(10, 40, 3):
            rows = [some_row(number + at, LARGE) for at in range(3)]
            store.commit(committing(rows=rows))
            assert list(store.rows())[-3:] == rows
            store.commit(committing(rows_gone=[row.number for row in rows]))
        assert size(tmp_path) == before
        assert store.check() == []


def test_blocks_that_a_backup_may_read_are_not_used_until_the_backup_has_ended(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(1, LARGE)]))
        reader = os.open(tmp_path / DATA_FILE, os.O_RDONLY)
        fcntl.flock(reader, fcntl.LOCK_SH)
        for number in range(2, 5):
            store.commit(committing(rows=[some_row(number, LARGE)], rows_gone=[number - 1]))
        tidy(store)
        assert os.pread(reader, LARGE, 0) == some_row(1, LARGE).data
        before = size(tmp_path)
        assert before == 3 * BLOCKS * BLOCK + LARGE
        os.close(reader)
        for number in range(5, 20):
            store.commit(committing(rows=[some_row(number, LARGE)], rows_gone=[number - 1]))
        assert size(tmp_path) == before
        assert list(store.rows()) == [some_row(19, LARGE)]


def test_free_blocks_go_back_to_the_file_system_and_the_rest_stays(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1, 41):
            store.commit(committing(rows=[some_row(number, MIB)]))
        before = store.usage()
        store.commit(committing(rows_gone=[number for number in range(1, 41) if number % 8]))
        after = store.usage()
        tidy(store)
        assert before.used - after.used < 2 * MIB, "what a backup may read is in use"
        assert store.usage().used <= 6 * MIB
        assert taken(tmp_path) <= 6 * MIB
        assert store.usage().taken < 12 * MIB
        assert list(store.rows()) == [some_row(number, MIB) for number in range(8, 41, 8)]
        store.commit(committing(rows_gone=list(range(8, 41, 8))))
        for number in range(50, 90):
            store.commit(committing(rows=[some_row(number, MIB)]))
        assert size(tmp_path) <= 40 * MIB
        store.commit(committing(rows_gone=list(range(50, 90))))
        tidy(store)
        assert (size(tmp_path), taken(tmp_path)) == (0, 0)
        assert store.check() == []


def test_busy_store_returns_free_blocks_between_commits(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1, 61):
            store.commit(committing(rows=[some_row(number, MIB)]))
        store.commit(committing(rows_gone=[number for number in range(1, 61) if number % 8]))
        steps = 0
        while taken(tmp_path) > 8 * MIB:
            store.commit(committing(rows=[some_row(100 + steps, LARGE)], rows_gone=[99 + steps]))
            store.reclaim_space(idle=False)
            steps += 1
        assert steps < 20
        assert [row.number for row in store.rows()] == [8, 16, 24, 32, 40, 48, 56, 99 + steps]
        assert store.check() == []


def test_step_returns_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1, 81):
            store.commit(committing(rows=[some_row(number, MIB)]))
        store.commit(committing(rows_gone=[number for number in range(1, 81) if number != 40]))
        while taken(tmp_path) > 2 * MIB:
            before = taken(tmp_path)
            store.reclaim_space()
            assert before - taken(tmp_path) <= RETURNED_A_STEP + BLOCK
        assert list(store.rows()) == [some_row(40, MIB)]


def test_transaction_that_failed_is_written_to_the_same_blocks(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(1, LARGE), some_row(2)]))
        store._connection.execute("PRAGMA max_page_count = 30")
        commit = committing(rows=[some_row(3, LARGE), some_row(4, 2 * LARGE), some_row(5, 60_000)], rows_gone=[1])
        for number in range(6, 12):
            commit.rows.append(some_row(number, 60_000))
        for _ in range(3):
            with pytest.raises(StoreFull):
                store.commit(commit)
            assert size(tmp_path) == BLOCKS * 2 * BLOCK + 2 * LARGE
            assert list(store.rows()) == [some_row(1, LARGE), some_row(2)]
        store._connection.execute("PRAGMA max_page_count = 1000000")
        store.commit(commit)
        assert size(tmp_path) == BLOCKS * 2 * BLOCK + 2 * LARGE
        assert [row.number for row in store.rows()] == [2, *range(3, 12)]
        store.commit(committing(rows=[some_row(20, LARGE)]))
        assert size(tmp_path) == BLOCKS * 2 * BLOCK + 2 * LARGE, "the blocks of the deleted row"
        assert store.check() == []


def test_missing_file_is_refused_and_the_rest_is_saved(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        store.commit(of_each_kind())
    (tmp_path / "data" / DATA_FILE).unlink()
    with pytest.raises(StoreError, match=r"^the data file '.*/messages\.data' of the store is missing: restore the "):
        SqliteStore(tmp_path / "data").open()
    saved = repair(tmp_path / "data", tmp_path / "saved")
    assert {(lost.what, lost.why) for lost in saved.lost} == {
        (what, "its data cannot be read: 'messages.data' is missing")
        for what in ("row 1", "page 3 of queue number 7", "piece 0 of body 1")
    }
    with opened(tmp_path / "saved") as store:
        assert [row.number for row in contents(store).rows] == [2, 4]


def test_file_removed_while_in_use_stops_the_broker(tmp_path: Path) -> None:
    held = DataDirectory(tmp_path)
    held.lock()
    store = SqliteStore(tmp_path, held)
    store.open()
    store.commit(of_each_kind())
    (tmp_path / DATA_FILE).unlink()
    with pytest.raises(StoreLost, match=r"^the store '.*/messages\.data' was removed or replaced while a broker used"):
        store.commit(committing(rows=[some_row(20)]))
    store.close()
    held.unlock()


@pytest.mark.parametrize("how", ["flipped", "cut off"])
def test_damaged_data_is_reported_and_all_else_comes_back(tmp_path: Path, how: str) -> None:
    with opened(tmp_path / "data") as store:
        store.commit(of_each_kind())
    with (tmp_path / "data" / DATA_FILE).open("r+b") as file:
        if how == "flipped":
            for at in (5_000, BLOCKS * BLOCK + 7, 2 * BLOCKS * BLOCK + LARGE - 1):
                file.seek(at)
                octet = file.read(1)[0]
                file.seek(at)
                file.write(bytes([octet ^ 1]))
        else:
            file.truncate(1000)
    expected = ["row 1", "page 3 of queue number 7", "piece 0 of body 1"]
    with opened(tmp_path / "data") as store:
        found = contents(store)
        assert [row.number for row in found.rows] == [2, 4]
        assert [piece.at for piece in found.pieces] == [1]
        assert sorted(damage.what for damage in store.damaged) == sorted(expected)
        assert sorted(damage.what for damage in store.check()) == sorted(expected)
    saved = repair(tmp_path / "data", tmp_path / "saved")
    assert sorted(damage.what for damage in saved.lost) == sorted(expected)
    assert {damage.why for damage in saved.lost} == {"its checksum is wrong"}


def test_damaged_database_allows_no_block_to_be_reused(tmp_path: Path) -> None:
    """What a repair may still save stays."""
    with opened(tmp_path) as store:
        store.commit(of_each_kind())
        store.commit(committing(rows_gone=[1]))
        store._connection.execute("UPDATE sums SET count = count + 1 WHERE name = 'pieces'")
    before = (tmp_path / DATA_FILE).read_bytes()
    with opened(tmp_path) as store:
        store.commit(committing(rows=[some_row(20, LARGE)], pieces_gone=[(1, 0, 9)]))
        store.commit(committing(rows=[some_row(21, LARGE)]))
        assert list(store.rows())[-2:] == [some_row(20, LARGE), some_row(21, LARGE)]
    assert (tmp_path / DATA_FILE).read_bytes().startswith(before)
