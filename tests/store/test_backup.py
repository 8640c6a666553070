"""A backup is the store of one moment, made while the store is written."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.commit_counter import COUNTER_FILE
from penstock.store.data_file import DATA_FILE
from penstock.store.records import QueuePosition
from penstock.store.sqlite import FILE, SqliteStore
from tests.support.open_stores import committing, contents, filled, opened, some_row, unprivileged
from tests.support.store_process import LIVE, numbered, size_of


def test_backup_is_a_whole_folder_that_a_store_opens(tmp_path: Path) -> None:
    written = filled(tmp_path / "data")
    with opened(tmp_path / "data") as store:
        store.backup(tmp_path / "backups" / "today")
        store.commit(committing(rows=[some_row(5000)]))
    assert {path.name for path in (tmp_path / "backups" / "today").iterdir()} == {FILE, COUNTER_FILE}
    assert (tmp_path / "backups" / "today").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "backups" / "today" / FILE).stat().st_mode & 0o777 == 0o600
    with opened(tmp_path / "backups" / "today") as store:
        assert contents(store) == written
        assert store.check() == store.damaged == []


def test_backup_during_endless_writes_ends_and_is_of_a_single_moment(tmp_path: Path) -> None:
    """It is made in a thread of its own; the writer goes on between its steps, and it never begins again."""
    with opened(tmp_path / "data") as store:
        store.commit(committing(rows=[some_row(1_000_000 + number, 1 << 20) for number in range(24)]))
        number, ended = LIVE + 1, threading.Event()
        backup = threading.Thread(target=lambda: (store.backup(tmp_path / "copy"), ended.set()))
        backup.start()
        while True:  # Once at the least, however quick the backup is.
            store.commit(numbered(number, size_of(number)))
            number += 1
            if ended.is_set():
                break
        backup.join()
        assert contents(store).positions == [QueuePosition(1, number - 1, number - 1)]
    with opened(tmp_path / "copy") as store:
        found = contents(store)
        assert store.check() == []
    last = found.positions[0].tail if found.positions else LIVE
    assert last < number
    live = [row for row in found.rows if row.number < 1_000_000]
    assert live == [some_row(each, size_of(each)) for each in range(max(LIVE + 1, last - LIVE + 1), last + 1)]
    assert len(found.rows) - len(live) == 24


def test_backup_reports_the_progress_and_the_store_may_be_written_meanwhile(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with opened(tmp_path / "data") as store:
        store.commit(committing(rows=[some_row(number, 1 << 20) for number in range(1, 9)]))

        def step(left: int, pages: int) -> None:
            told.append((left, pages))
            store.commit(numbered(100 + len(told)))

        store.backup(tmp_path / "copy", step)
        assert len(list(store.rows())) == 8 + min(len(told), LIVE)
    assert len(told) > 3
    assert [left for left, _ in told] == sorted((left for left, _ in told), reverse=True)
    assert told[-1][0] == 0
    assert len({pages for _, pages in told}) == 1
    with opened(tmp_path / "copy") as store:
        assert list(store.rows()) == [some_row(number, 1 << 20) for number in range(1, 9)]


@pytest.mark.usefixtures("in_database")
def test_log_returns_the_room_when_the_backup_has_ended(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        store.commit(committing(rows=[some_row(number, 1 << 20) for number in range(1, 5)]))
        large = iter(range(100, 200))
        store.backup(tmp_path / "copy", lambda left, pages: store.commit(numbered(next(large), 20 << 20)))
        while store.reclaim_space():
            pass
        store.reclaim_space()
        assert (tmp_path / "data" / f"{FILE}-wal").stat().st_size == 0


def test_nonempty_target_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-my-aunt").write_text("Dear aunt")
    with opened(tmp_path / "data") as store, pytest.raises(StoreError) as raised:
        store.backup(tmp_path / "letters")
    assert str(raised.value) == f"cannot back up to '{tmp_path / 'letters'}': that folder is not empty"
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["to-my-aunt"]


def test_target_file_or_read_only_target_is_refused(open_folder: Path) -> None:
    filled(open_folder / "data")
    (open_folder / "file").write_text("")
    (open_folder / "closed").mkdir(mode=0o500)
    with unprivileged(open_folder), opened(open_folder / "data") as store:
        for target, why in (("file", "Not a directory"), ("closed", "Permission denied")):
            with pytest.raises(StoreError) as raised:
                store.backup(open_folder / target)
            assert str(raised.value) == f"cannot write the backup '{open_folder / target}': {why}"


def test_missing_store_is_not_backed_up(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"^there is no store '.*' to back up$"):
        SqliteStore(tmp_path).backup(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_backup_that_fails_leaves_no_files_behind(tmp_path: Path) -> None:
    def stop(left: int, pages: int) -> None:
        raise KeyboardInterrupt

    with opened(tmp_path / "data") as store:
        store.commit(committing(rows=[some_row(1, 1 << 20)]))
        with pytest.raises(KeyboardInterrupt):
            store.backup(tmp_path / "copy", stop)
        assert os.listdir(tmp_path / "copy") == []
        store.backup(tmp_path / "copy")
        assert set(os.listdir(tmp_path / "copy")) == {FILE, DATA_FILE, COUNTER_FILE}
