"""Space of a store: measured, returned to the file system, and kept in a reserve."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import StoreFull
from penstock.store import sqlite
from penstock.store.data_file import PLACED_BYTES, RETURNED_A_STEP
from penstock.store.directory import DataDirectory
from penstock.store.space import (
    BUSY_LOOKS,
    FREE_BEGIN,
    FREE_END,
    FREED_AT_ONCE,
    LOG_BYTES,
    LOG_KEPT,
    MIB,
    RESERVE_BYTES,
    RESERVE_FILE,
    STOPPED_BYTES,
    WHOLE_BYTES,
    Reserve,
    log_bytes,
)
from penstock.store.sqlite import FILE, SqliteStore
from tests.support.faults import fill, small_disk
from tests.support.open_stores import committing, contents, opened, some_row
from tests.support.store_process import numbered

SLACK = 2 * MIB


def blocks(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir())


def fill_with(store: SqliteStore, mebibytes: int, first: int = 1) -> None:
    for number in range(first, first + mebibytes):
        store.commit(committing(rows=[some_row(number, MIB)]))


def tidied(store: SqliteStore) -> int:
    """Tidy up until there is no more to do; how many steps that took."""
    steps = 1
    while store.reclaim_space():
        steps += 1
    return steps


def test_space_taken_is_that_counted_by_the_file_system(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill_with(store, 20)
        usage = store.usage()
        assert usage.taken == blocks(tmp_path)
        assert 20 * MIB <= usage.used <= 20 * MIB + LOG_BYTES + SLACK
        assert usage.used <= usage.taken
        assert usage.free is not None
        system = os.statvfs(tmp_path)
        assert 0 <= usage.free <= system.f_blocks * system.f_frsize


@pytest.mark.usefixtures("in_database")
def test_pages_that_are_free_are_taken_and_not_used(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill_with(store, 40)
        before = store.usage()
        store.commit(committing(rows_gone=list(range(1, 31))))
        after = store.usage()
    assert after.taken >= before.taken
    assert before.used - after.used >= 29 * MIB


@pytest.mark.usefixtures("in_database")
def test_space_of_an_emptied_store_goes_back_to_the_file_system(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill_with(store, 64)
        assert blocks(tmp_path) > 64 * MIB
        store.commit(committing(rows_gone=list(range(1, 65))))
        assert store.usage().used <= LOG_BYTES + SLACK
        steps = tidied(store)
        assert (tmp_path / f"{FILE}-wal").stat().st_size == 0
        assert blocks(tmp_path) <= FREE_END + SLACK
        assert store.usage().used <= SLACK
        assert (64 * MIB - FREE_END) // (FREED_AT_ONCE * 8192) <= steps < 100
        assert tidied(store) == 1
        assert store.check() == []


def busy_steps(store: SqliteStore, number: int) -> int:
    """Commit one small row after the other, with a step of housekeeping after each, until there is no more to do."""
    steps = 0
    more = True
    while more:
        store.commit(committing(rows=[some_row(number + steps)], rows_gone=[number + steps - 1]))
        more = store.reclaim_space(idle=False)
        steps += 1
    return steps


@pytest.mark.parametrize("placed", [PLACED_BYTES, 1 << 40], ids=["data file", "database"])
def test_busy_store_returns_space_that_several_looks_find_free(
    tmp_path: Path, placed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PLACED_BYTES", placed)
    with opened(tmp_path) as store:
        fill_with(store, 64)
        store.commit(committing(rows_gone=list(range(1, 65))))
        for look in range(1, BUSY_LOOKS):
            assert busy_steps(store, 100 * look) == 1
            assert blocks(tmp_path) > 64 * MIB
        assert busy_steps(store, 1000) >= 64 * MIB // RETURNED_A_STEP
        assert blocks(tmp_path) <= FREE_BEGIN + SLACK
        assert store.check() == []


@pytest.mark.parametrize("placed", [PLACED_BYTES, 1 << 40], ids=["data file", "database"])
def test_busy_store_keeps_space_for_later_use(tmp_path: Path, placed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "PLACED_BYTES", placed)
    with opened(tmp_path) as store:
        for wave in range(4):
            fill_with(store, 40, 1 + wave * 40)
            assert not store.reclaim_space(idle=False)
            store.commit(committing(rows_gone=list(range(1 + wave * 40, 41 + wave * 40))))
            for _ in range(BUSY_LOOKS - 1):
                assert not store.reclaim_space(idle=False)
        assert blocks(tmp_path) >= 40 * MIB


@pytest.mark.usefixtures("in_database")
def test_step_is_bounded(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill_with(store, 40)
        store.commit(committing(rows_gone=list(range(1, 41))))
        pages = free_pages(store)
        assert store.reclaim_space()
        assert free_pages(store) == pages - FREED_AT_ONCE


def test_idle_store_is_measured_once_after_a_change(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        asked: list[str] = []
        store._connection.set_trace_callback(asked.append)
        for number in (1, 2):
            store.commit(committing(rows=[some_row(number, 1000)]))
            asked.clear()
            tidied(store)
            usage = store.usage()
            assert asked
            asked.clear()
            assert tidied(store) == 1
            assert store.usage()._replace(free=usage.free) == usage
            assert asked == []


def free_pages(store: SqliteStore) -> int:
    return int(store._connection.execute("PRAGMA freelist_count").fetchone()[0])


@pytest.mark.usefixtures("in_database")
def test_rows_in_use_move_to_the_front_unchanged(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill_with(store, 64)
        store.commit(committing(rows_gone=[number for number in range(1, 65) if number % 8]))
        tidied(store)
        assert list(store.rows()) == [some_row(number, MIB) for number in range(8, 65, 8)]
        assert blocks(tmp_path) <= 8 * MIB + FREE_END + SLACK
        assert store.check() == []


@pytest.mark.usefixtures("in_database")
def test_free_room_below_a_threshold_is_kept_for_new_records(tmp_path: Path) -> None:
    """A quarter of the file, or 16 MiB: below either nothing moves."""
    with opened(tmp_path) as store:
        fill_with(store, 80)
        store.commit(committing(rows_gone=list(range(1, 20))))
        assert free_pages(store) * 8192 > FREE_BEGIN
        taken = store.usage().taken
        assert tidied(store) == 1
        assert store.usage().taken >= taken - LOG_BYTES - SLACK
        store.commit(committing(rows_gone=list(range(20, 23))))
        assert tidied(store) > 1


@pytest.mark.usefixtures("in_database")
def test_log_stays_bounded_and_is_truncated_when_idle(tmp_path: Path) -> None:
    log = tmp_path / f"{FILE}-wal"
    with opened(tmp_path) as store:
        longest = 0
        for number in range(1, 60):
            store.commit(committing(rows=[some_row(number, MIB)], rows_gone=[number - 2]))
            longest = max(longest, log.stat().st_size)
        assert LOG_KEPT < longest <= LOG_BYTES + SLACK
        tidied(store)
        assert log.stat().st_size == 0
        store.commit(committing(rows=[some_row(100, 1000)]))
        kept = log.stat().st_size
        assert 0 < kept < LOG_KEPT
        tidied(store)
        assert log.stat().st_size == kept


@pytest.mark.usefixtures("in_database")
def test_free_room_is_used_before_the_file_grows(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill_with(store, 12)
        store.commit(committing(rows_gone=list(range(1, 13))))
        tidied(store)
        before = store.path.stat().st_size
        fill_with(store, 11, first=20)
        tidied(store)
        assert store.path.stat().st_size <= before


def commit_without_end(store: SqliteStore) -> None:
    for number in range(3, 1000):
        store.commit(numbered(number, 200_000))


def test_reserve_takes_blocks_shrinks_and_is_given_away(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", f"{WHOLE_BYTES}") as disk:
        reserve = Reserve(disk)
        assert (reserve.wanted(), reserve.missing()) == (RESERVE_BYTES, RESERVE_BYTES)
        for hold, size in (
            (reserve.make, RESERVE_BYTES),
            (reserve.shrink, STOPPED_BYTES),
            (reserve.make, RESERVE_BYTES),
        ):
            hold()
            assert reserve.path.stat().st_blocks * 512 == size
            assert reserve.missing() == RESERVE_BYTES - size
        assert reserve.release()
        assert not reserve.release()
        assert reserve.missing() == RESERVE_BYTES


def test_reserve_and_log_are_in_proportion_to_a_small_file_system(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", f"{WHOLE_BYTES // 8}") as disk:
        assert Reserve(disk).wanted() == RESERVE_BYTES // 8
        assert log_bytes(disk / FILE) == LOG_BYTES // 8


def test_reserve_for_which_there_is_no_room_is_not_made_by_half(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", f"{64 * MIB}") as disk:
        (disk / "ballast").write_bytes(bytes(62 * MIB))
        reserve = Reserve(disk)
        reserve.make()
        assert not reserve.path.exists()
        (disk / "ballast").unlink()
        reserve.make()
        assert reserve.missing() == 0


def test_store_on_a_full_disk_is_opened_and_written_from_the_reserve(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", f"{64 * MIB}") as disk:
        directory = DataDirectory(disk / "data")
        directory.lock()
        store = SqliteStore(disk / "data", directory)
        store.open()
        whole = RESERVE_BYTES * 64 * MIB // WHOLE_BYTES
        assert (disk / "data" / RESERVE_FILE).stat().st_size == whole
        store.commit(numbered(1))
        store.close()
        assert (disk / "data" / RESERVE_FILE).stat().st_size == STOPPED_BYTES
        fill(disk / "ballast")
        store.open()
        store.commit(numbered(2))
        assert [row.number for row in contents(store).rows] == [1, 2]
        assert not (disk / "data" / RESERVE_FILE).exists()
        needed = store.usage().needed
        assert needed >= whole
        with pytest.raises(StoreFull):
            commit_without_end(store)
        (disk / "ballast").unlink()
        while store.reclaim_space():
            pass
        assert (disk / "data" / RESERVE_FILE).stat().st_size == whole
        assert store.usage().needed < needed
        store.close()
        directory.unlock()


def test_store_opened_for_a_check_makes_no_reserve(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.open()
    assert store.usage().needed <= LOG_BYTES * 3 // 2
    store.close()
    assert not (tmp_path / RESERVE_FILE).exists()
