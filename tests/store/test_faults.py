"""Full and failing disks: a failed commit is not confirmed, and can be repeated once the disk works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.store.records import QueuePosition
from tests.support.faults import Disk
from tests.support.open_stores import contents, opened, some_row
from tests.support.store_process import LIVE, size_of

ROOT = Path(__file__).resolve().parents[2]
CHILD = [sys.executable, "-m", "tests.support.store_process"]
Ask = Callable[[str, int], str]


@contextmanager
def child(directory: Path, *before: str, **environment: str) -> Iterator[Ask]:
    """Start a process that does what it is asked, see child.py; `before` is put before its command."""
    command = [*before, *CHILD, str(directory)]
    every = {**os.environ, **environment}
    with subprocess.Popen(
        command, cwd=ROOT, env=every, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        said, told = process.stdin, process.stdout
        assert said is not None
        assert told.readline() == "open\n"

        def ask(word: str, number: int) -> str:
            said.write(f"{word} {number}\n")
            said.flush()
            return told.readline().rstrip("\n")

        yield ask
        said.close()
    assert process.returncode == 0


@contextmanager
def child_with(commits: int, directory: Path, **environment: str) -> Iterator[Ask]:
    """Start such a process, which has made the first commits."""
    with child(directory, **environment) as ask:
        for number in range(1, commits + 1):
            assert ask("commit", number) == f"done {number}"
        yield ask


def assert_only(directory: Path, last: int, first: int = 1) -> None:
    """The store has what commits up to a last one leave, and is in order."""
    with opened(directory) as store:
        found = contents(store)
        assert store.check() == store.damaged == []
    assert [row.number for row in found.rows] == [*range(max(first, last - LIVE + 1), last + 1)]
    assert found.rows == [some_row(row.number, size_of(row.number)) for row in found.rows]
    assert found.positions == [QueuePosition(1, last, last)]


# A full disk


@pytest.fixture
def own_mounts() -> list[str]:
    """Return what to put before a command that is to mount something that nobody else sees."""
    before = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*before, "true"], capture_output=True).returncode != 0:
        pytest.skip("This process may mount no file system of its own.")
    return before


def test_full_file_system_is_reported_and_the_commit_can_be_repeated(tmp_path: Path, own_mounts: list[str]) -> None:
    small = tmp_path / "small"
    small.mkdir()
    script = f'mount -t tmpfs -o size=3m none {small} && head -c 2800000 /dev/zero > {small}/large && exec "$@"'
    with child(small, *own_mounts, "sh", "-c", script, "sh") as ask:
        number = 1
        while (said := ask("commit", number)) == f"done {number}":
            number += 1
        assert 1 < number < 30
        full = (
            f"StoreFull: cannot write the store '{small}/messages.sqlite': there is no room left for it on its disk",
            f"StoreFull: cannot write the data file of the store '{small}/messages.data': No space left on device",
        )
        assert said == ask("commit", number)
        assert said in full
        live = " ".join(str(each) for each in range(max(1, number - LIVE), number))
        assert ask("numbers", 0) == live
        assert ask("remove", 0) == "done 0"
        assert ask("commit", number) == f"done {number}"
        assert ask("numbers", 0).split()[-1] == str(number)


def test_file_that_may_not_grow_is_no_full_disk_and_no_crash(tmp_path: Path) -> None:
    """RLIMIT_FSIZE: the kernel says EFBIG, SQLite SQLITE_IOERR_WRITE; Python ignores SIGXFSZ."""
    with child(tmp_path, "sh", "-c", 'ulimit -f 400 && exec "$@"', "sh") as ask:
        number = 1
        while (said := ask("commit", number)) == f"done {number}":
            number += 1
        assert 1 < number < 30
        expected = (
            f"StoreError: cannot write the store '{tmp_path}/messages.sqlite': the disk fails (SQLITE_IOERR_WRITE)"
        )
        assert said == ask("commit", number) == expected
        assert ask("numbers", 0).split()[-1] == str(number - 1)
    with child(tmp_path) as ask:
        assert ask("commit", number) == f"done {number}"
    assert_only(tmp_path, number)


# A disk that fails


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder for a store."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


REFUSED = (
    "^StoreError: cannot write (the store '.*/messages.sqlite': the disk fails|the data file .*/messages.data': Input/)"
)
"""What is told of a disk that fails."""


@pytest.mark.parametrize("words", ["log sync", "log write", "log torn", "log late", "sync", "write torn"])
def test_commit_that_the_disk_does_not_take_is_not_confirmed_and_goes_through_later(
    data: Path, disk: Disk, words: str
) -> None:
    with child_with(7, data, **disk.environment) as ask:
        for number in range(8, 20, 2):
            disk.fail(words)
            for _ in range(2):
                assert re.match(REFUSED, ask("commit", number))
                assert ask("numbers", 0).split()[-1] == str(number - 1)
            disk.work()
            assert ask("commit", number) == f"done {number}"
            assert ask("commit", number + 1) == f"done {number + 1}"
    assert_only(data, 19, first=15)


@pytest.mark.parametrize("words", ["data sync", "data write", "data torn", "data late"])
def test_large_data_that_the_disk_refuses_is_not_confirmed_and_can_be_repeated(
    data: Path, disk: Disk, words: str
) -> None:
    with child_with(8, data, **disk.environment) as ask:
        for number in range(9, 20, 3):
            disk.fail(words)
            for _ in range(2):
                assert "messages.data': Input/output error" in ask("commit", number)
                assert ask("numbers", 0).split()[-1] == str(number - 1)
            disk.work()
            for each in range(number, number + 3):
                assert ask("commit", each) == f"done {each}"
    assert_only(data, 20)


@pytest.mark.parametrize("words", ["log sync", "log late"])
def test_failed_commit_is_whole_or_absent_after_a_kill_and_can_be_repeated(
    tmp_path: Path, data: Path, disk: Disk, words: str
) -> None:
    with child_with(7, data, **disk.environment) as ask:
        disk.fail(words)
        assert ask("commit", 8).startswith("StoreError: ")
        shutil.copytree(data, tmp_path / "killed")
        disk.work()
    with opened(tmp_path / "killed") as store:
        last = contents(store).rows[-1].number
        assert last in (7, 8)
    with child(tmp_path / "killed") as ask:
        assert ask("commit", 8) == "done 8"
    assert_only(tmp_path / "killed", 8)


@pytest.mark.parametrize("words", ["count sync", "count write", "count torn", "count late", "count full"])
def test_commit_that_cannot_be_counted_is_not_confirmed_and_goes_through_later(
    tmp_path: Path, data: Path, disk: Disk, words: str
) -> None:
    """The log has it already: after a kill it may be there, and nothing looks damaged."""
    kind, why = ("StoreFull", "No space left on device") if "full" in words else ("StoreError", "Input/output error")
    with child_with(7, data, **disk.environment) as ask:
        disk.fail(words)
        for _ in range(2):
            assert (
                ask("commit", 8) == f"{kind}: cannot write the count of transactions '{data}/messages.commits': {why}"
            )
        shutil.copytree(data, tmp_path / "killed")
        disk.work()
        assert ask("commit", 8) == "done 8"
        assert ask("commit", 9) == "done 9"
    assert_only(data, 9, first=5)
    assert_only(tmp_path / "killed", 8, first=4)


@pytest.mark.parametrize("words", ["file sync", "file write", "file torn"])
def test_log_that_cannot_be_written_back_stays_without_loss(tmp_path: Path, data: Path, disk: Disk, words: str) -> None:
    with child_with(79, data, **disk.environment) as ask:  # More than a mebibyte of log.
        disk.fail(words)
        assert ask("tidy", 0).startswith(
            f"StoreError: cannot write the store '{data}/messages.sqlite': the disk fails ("
        )
        assert ask("commit", 80) == "done 80"
        assert (data / "messages.sqlite-wal").stat().st_size > 1024 * 1024
        shutil.copytree(data, tmp_path / "killed")
        disk.work()
        assert ask("tidy", 0) == "done 0"
        assert (data / "messages.sqlite-wal").stat().st_size == 0
        assert ask("commit", 81) == "done 81"
    assert_only(data, 81)
    assert_only(tmp_path / "killed", 80)


def test_disk_that_fails_when_the_store_is_closed_keeps_committed_records(data: Path, disk: Disk) -> None:
    with child_with(9, data, **disk.environment):
        disk.fail("file sync write")
    disk.work()
    assert (data / "messages.sqlite-wal").exists()
    assert_only(data, 9)
