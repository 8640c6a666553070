"""What a store takes is measured, and what it does not need goes back to the file system."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.store.space import FREE_BEGIN, FREE_END, FREED_AT_ONCE, LOG_BYTES, LOG_KEPT, MIB
from penstock.store.sqlite import FILE, SqliteStore
from tests.support.open_stores import committing, opened, some_row

SLACK = 2 * MIB


def blocks(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir())


def fill(store: SqliteStore, mebibytes: int, first: int = 1) -> None:
    for number in range(first, first + mebibytes):
        store.commit(committing(rows=[some_row(number, MIB)]))


def tidied(store: SqliteStore) -> int:
    """Tidy up until there is no more to do; how many steps that took."""
    steps = 1
    while store.reclaim_space():
        steps += 1
    return steps


def test_what_is_taken_is_what_the_file_system_counts(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store, 20)
        usage = store.usage()
        assert usage.taken == blocks(tmp_path)
        assert 20 * MIB <= usage.used <= 20 * MIB + LOG_BYTES + SLACK
        assert usage.used <= usage.taken
        assert usage.free is not None
        system = os.statvfs(tmp_path)
        assert 0 <= usage.free <= system.f_blocks * system.f_frsize


def test_pages_that_are_free_are_taken_and_not_used(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store, 40)
        before = store.usage()
        store.commit(committing(rows_gone=list(range(1, 31))))
        after = store.usage()
    assert after.taken >= before.taken
    assert before.used - after.used >= 29 * MIB


def test_when_all_is_gone_the_file_system_has_its_room_back(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store, 64)
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


def test_step_is_bounded(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store, 40)
        store.commit(committing(rows_gone=list(range(1, 41))))
        pages = free_pages(store)
        assert store.reclaim_space()
        assert free_pages(store) == pages - FREED_AT_ONCE


def free_pages(store: SqliteStore) -> int:
    return int(store._connection.execute("PRAGMA freelist_count").fetchone()[0])


def test_what_is_in_use_moves_to_the_front_and_stays_what_it_was(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store, 64)
        store.commit(committing(rows_gone=[number for number in range(1, 65) if number % 8]))
        tidied(store)
        assert list(store.rows()) == [some_row(number, MIB) for number in range(8, 65, 8)]
        assert blocks(tmp_path) <= 8 * MIB + FREE_END + SLACK
        assert store.check() == []


def test_little_room_that_is_free_is_kept_for_what_comes(tmp_path: Path) -> None:
    """A quarter of the file, or 16 MiB: below either nothing moves."""
    with opened(tmp_path) as store:
        fill(store, 80)
        store.commit(committing(rows_gone=list(range(1, 20))))
        assert free_pages(store) * 8192 > FREE_BEGIN
        taken = store.usage().taken
        assert tidied(store) == 1
        assert store.usage().taken >= taken - LOG_BYTES - SLACK
        store.commit(committing(rows_gone=list(range(20, 23))))
        assert tidied(store) > 1


def test_log_stays_bounded_and_is_cut_off_when_there_is_nothing_to_do(tmp_path: Path) -> None:
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


def test_room_that_is_free_is_used_before_the_file_grows(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store, 12)
        store.commit(committing(rows_gone=list(range(1, 13))))
        tidied(store)
        before = store.path.stat().st_size
        fill(store, 11, first=20)
        tidied(store)
        assert store.path.stat().st_size <= before
