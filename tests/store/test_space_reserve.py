"""The store keeps room on its file system, gives it away on a full one, and takes it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import StoreFull
from penstock.store.directory import DataDirectory
from penstock.store.space import LOG_BYTES, RESERVE_BYTES, RESERVE_FILE, STOPPED_BYTES, WHOLE_BYTES, Reserve, log_bytes
from penstock.store.sqlite import FILE, SqliteStore
from tests.support.faults import fill, small_disk
from tests.support.open_stores import contents
from tests.support.store_process import numbered

MIB = 1024 * 1024


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


def test_on_a_small_file_system_the_reserve_and_the_log_are_small_in_proportion(tmp_path: Path) -> None:
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


def test_store_on_a_full_disk_is_opened_and_written_from_its_reserve_and_says_what_it_needs(tmp_path: Path) -> None:
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


def test_who_only_checks_or_repairs_makes_no_reserve(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.open()
    assert store.usage().needed <= LOG_BYTES * 3 // 2
    store.close()
    assert not (tmp_path / RESERVE_FILE).exists()
