"""A log that is damaged in its middle is refused, not cut off there in silence; one that just ends is not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.repair import repair
from penstock.store.salvage import FRAME, HEADER, Log
from penstock.store.schema import PAGE_SIZE
from penstock.store.sqlite import FILE, SqliteStore
from tests.support.open_stores import EMPTY, Contents, contents, opened
from tests.support.store_process import numbered

COMMITS = 12
STEP = FRAME.size + PAGE_SIZE


class Crashed:
    """What a store leaves that was killed after some commits: its file, its log, and what was in it after each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.states: list[Contents] = []
        self.ends: list[int] = []
        """Up to which byte of the log each commit goes."""
        with opened(directory / "live") as store:
            for number in range(1, COMMITS + 1):
                store.commit(numbered(number))
                self.states.append(contents(store))
                self.ends.append((directory / "live" / f"{FILE}-wal").stat().st_size)
            self.file = (directory / "live" / FILE).read_bytes()
            self.log = (directory / "live" / f"{FILE}-wal").read_bytes()

    def left(self, log: bytes) -> Path:
        """Put the file down, with a log that may have been changed."""
        place = self.directory / "left"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / FILE).write_bytes(self.file)
        (place / f"{FILE}-wal").write_bytes(log)
        return place


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    return Crashed(tmp_path_factory.mktemp("log"))


def flipped(octets: bytes, at: int) -> bytes:
    return octets[:at] + bytes([octets[at] ^ 4]) + octets[at + 1 :]


def refusal(place: Path) -> str:
    """Return why the store is not opened; the file and the log stay what they are."""
    before = (place / FILE).read_bytes(), (place / f"{FILE}-wal").read_bytes()
    with pytest.raises(StoreError) as raised:
        SqliteStore(place).open()
    assert before == ((place / FILE).read_bytes(), (place / f"{FILE}-wal").read_bytes())
    return str(raised.value)


def test_log_as_the_crash_left_it_is_read_to_its_end(crashed: Crashed) -> None:
    with opened(crashed.left(crashed.log)) as store:
        assert contents(store) == crashed.states[-1]
        assert store.damaged == []


def test_log_that_ends_anywhere_gives_the_last_commit_that_is_whole(crashed: Crashed) -> None:
    """As a power failure may leave it. (A file whose log was cut off on purpose looks the same.)"""
    for size in (0, 10, HEADER.size, *range(HEADER.size + 5, len(crashed.log), STEP // 2)):
        whole = sum(end <= size for end in crashed.ends)
        with opened(crashed.left(crashed.log[:size])) as store:
            assert contents(store) == (crashed.states[whole - 1] if whole else EMPTY)
            assert store.check() == store.damaged == []


def test_flipped_bit_in_all_but_the_last_commit_is_refused(crashed: Crashed) -> None:
    refused = 0
    for at in range(0, len(crashed.log), 1009):
        commit = sum(end <= at for end in crashed.ends)
        place = crashed.left(flipped(crashed.log, at))
        if commit < COMMITS - 1:
            assert f"its log '{FILE}-wal' is damaged behind frame" in refusal(place)
            refused += 1
        else:
            with opened(place) as store:
                assert contents(store) in crashed.states[-2:]
                assert store.check() == store.damaged == []
    assert refused > 100


def test_log_of_a_crash_in_the_middle_of_a_later_round_is_read(crashed: Crashed) -> None:
    """The log begins again at its front; what follows are frames of the round before, and no damage."""
    place = crashed.left(crashed.log)
    with opened(place) as store:
        store._connection.execute("PRAGMA wal_checkpoint(RESTART)")
        store.commit(numbered(COMMITS + 1))
        after = contents(store)
        file, log = (place / FILE).read_bytes(), (place / f"{FILE}-wal").read_bytes()
    assert len(log) >= len(crashed.log)
    (place / FILE).write_bytes(file)
    (place / f"{FILE}-wal").write_bytes(log)
    with opened(place) as store:
        assert contents(store) == after
        assert store.damaged == []


def test_what_a_transaction_that_failed_left_behind_the_end_is_no_damage(crashed: Crashed) -> None:
    """Its last frame ends a transaction, but nothing was written that goes on from it."""
    end, last = crashed.ends[-3], crashed.ends[-2]
    place = crashed.left(flipped(crashed.log[:last], end + FRAME.size + 5))
    with opened(place) as store:
        assert contents(store) == crashed.states[-3]


def test_damaged_log_is_saved_up_to_its_end_but_for_what_is_wrong(crashed: Crashed, tmp_path: Path) -> None:
    """The flipped bit is in the middle of the row that came last but two."""
    row = crashed.states[-1].rows[-3]
    at = crashed.log.index(row.data[9000:9020])
    saved = repair(crashed.left(flipped(crashed.log, at)), tmp_path / "saved")
    assert [damage.what for damage in saved.lost] == [f"row {row.number}"]
    with opened(tmp_path / "saved") as store:
        found = contents(store)
    expected = crashed.states[-1]
    assert found == expected._replace(rows=[each for each in expected.rows if each != row])


def test_log_with_any_flipped_bit_is_saved_without_a_wrong_record(crashed: Crashed, tmp_path: Path) -> None:
    ever = {record for state in crashed.states for records in state for record in records}
    for turn, at in enumerate(range(0, len(crashed.log), 10_007)):
        saved = repair(crashed.left(flipped(crashed.log, at)), tmp_path / str(turn))
        with opened(tmp_path / str(turn)) as store:
            found = contents(store)
            assert store.check() == []
        assert ever.issuperset(record for records in found for record in records)
        if found not in crashed.states[-2:]:
            assert saved.lost


def test_log_is_read_as_sqlite_reads_it(crashed: Crashed) -> None:
    place = crashed.left(crashed.log)
    log = Log(place / f"{FILE}-wal", PAGE_SIZE)
    assert log.reached(0) == log.end() == log.frames == (len(crashed.log) - HEADER.size) // STEP
    assert log.lost(log.frames) is None
    log.close()
    nothing = Log(place / "nothing", PAGE_SIZE)
    assert (nothing.frames, nothing.end(), nothing.lost(0)) == (0, 0, None)
    nothing.close()
    os.truncate(place / f"{FILE}-wal", 0)
    empty = Log(place / f"{FILE}-wal", PAGE_SIZE)
    assert (empty.frames, empty.end(), empty.lost(0)) == (0, 0, None)
    empty.close()
