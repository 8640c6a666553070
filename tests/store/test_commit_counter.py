"""The commit counter: a store that is behind the count outside of its log is not opened.

The counter says how many transactions are missing.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store import schema
from penstock.store.commit_counter import (
    COUNTER_FILE,
    SLOT_BYTES,
    CommitCounter,
    Count,
    count_in,
    count_transaction,
    lost_transactions,
    missing,
    read_count,
)
from penstock.store.records import StoreTransaction
from penstock.store.repair import repair
from penstock.store.salvage import FRAME, HEADER, Log
from penstock.store.schema import PAGE_SIZE
from penstock.store.sqlite import FILE, SqliteStore
from tests.support.open_stores import Contents, committing, contents, opened, some_row
from tests.support.store_process import numbered

COMMITS = 12
MESSAGES = 3
"""Of each commit."""
WRITTEN_BACK = 4
"""Commits that are in the file and not only in its log."""


def commit_of(number: int) -> StoreTransaction:
    commit = numbered(number)
    commit.rows = [row._replace(messages=MESSAGES) for row in commit.rows]
    return commit


class Killed:
    """A store as a kill leaves it after some commits, with what was in it after each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.states: list[Contents] = []
        self.frames: list[int] = []
        """The last frame of each commit in the log."""
        live = directory / "live"
        with opened(live) as store:
            assert store._connection is not None
            for number in range(1, COMMITS + 1):
                if number == WRITTEN_BACK + 1:
                    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                store.commit(commit_of(number))
                self.states.append(contents(store))
                self.frames.append(((live / f"{FILE}-wal").stat().st_size - HEADER.size) // (FRAME.size + PAGE_SIZE))
            self.files = {name: (live / name).read_bytes() for name in (FILE, f"{FILE}-wal", COUNTER_FILE)}

    def left(self, log: bytes | None) -> Path:
        """Put it down with another log, or without one."""
        place = self.directory / "left"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for name, octets in (self.files | {f"{FILE}-wal": log}).items():
            if octets is not None:
                (place / name).write_bytes(octets)
        return place

    @property
    def log(self) -> bytes:
        return self.files[f"{FILE}-wal"]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(tmp_path_factory.mktemp("killed"))


def refusal(place: Path) -> str:
    """Return why the store is not opened; its file, its log and the count stay what they are."""
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(StoreError) as raised:
        SqliteStore(place).open()
    after = {path.name: path.read_bytes() for path in place.iterdir() if not path.name.endswith("-shm")}
    assert after == before
    return str(raised.value)


def lost(transactions: int) -> str:
    what = "transaction" if transactions == 1 else f"{transactions} transactions"
    return (
        f"has lost the last {what} of {COMMITS}, which brought {transactions * MESSAGES} messages: its log '{FILE}-wal'"
    )


def test_store_is_opened_after_a_kill_with_all_confirmed_data(killed: Killed) -> None:
    with opened(killed.left(killed.log)) as store:
        assert contents(store) == killed.states[-1]
        store.commit(commit_of(COMMITS + 1))
    with opened(store.path.parent) as store:
        assert contents(store).rows[-1].number == COMMITS + 1


@pytest.mark.parametrize("log", [None, b""], ids=["removed", "emptied"])
def test_log_that_was_removed_is_missed_with_the_number_of_transactions_and_messages(
    killed: Killed, log: bytes | None
) -> None:
    said = refusal(killed.left(log))
    assert lost(COMMITS - WRITTEN_BACK) in said
    assert "'penstock store repair' saves what is left in a new folder" in said


def test_log_that_was_cut_anywhere_is_missed_with_the_number_of_transactions(killed: Killed) -> None:
    frames = Log(killed.left(killed.log) / f"{FILE}-wal", PAGE_SIZE).frames
    assert frames == killed.frames[-1]
    for frame in range(frames):
        for more in (0, 100):
            size = HEADER.size + frame * (FRAME.size + PAGE_SIZE) + more
            whole = max(sum(last <= frame for last in killed.frames[WRITTEN_BACK:]), 0)
            assert lost(COMMITS - WRITTEN_BACK - whole) in refusal(killed.left(killed.log[:size]))


def test_flipped_bit_anywhere_in_the_last_transaction_is_missed(killed: Killed) -> None:
    """Where the bit makes a frame end a transaction that ended none, it is damage in the middle of the log."""
    begin = HEADER.size + killed.frames[-2] * (FRAME.size + PAGE_SIZE)
    counted = 0
    for at in range(begin, len(killed.log), 509):
        log = bytearray(killed.log)
        log[at] ^= 4
        said = refusal(killed.left(bytes(log)))
        assert lost(1) in said or "is damaged behind frame" in said
        counted += lost(1) in said
    assert counted > 100


def test_older_copy_in_the_place_of_the_file_is_missed(killed: Killed) -> None:
    place = killed.left(killed.log)
    with opened(place):
        pass
    (place / FILE).write_bytes(killed.files[FILE])
    assert lost(COMMITS - WRITTEN_BACK) in refusal(place)


def test_file_removed_together_with_the_log_is_missed(killed: Killed) -> None:
    place = killed.left(None)
    (place / FILE).unlink()
    assert refusal(place) == (
        f"the store '{place / FILE}' is missing, with the 12 transactions that it had: restore the file, or remove "
        f"'{place / COUNTER_FILE}' to begin with nothing"
    )


def test_repair_accepts_and_reports_the_loss_and_the_new_store_opens(killed: Killed, tmp_path: Path) -> None:
    saved = repair(killed.left(None), tmp_path / "saved")
    assert [(each.what, each.messages) for each in saved.lost] == [
        ("the last 8 transactions of 12, which brought 24 messages", 24)
    ]
    with opened(tmp_path / "saved") as store:
        assert contents(store) == killed.states[WRITTEN_BACK - 1]


def test_store_ahead_of_the_count_after_a_kill_is_opened(killed: Killed) -> None:
    place = killed.left(killed.log)
    CommitCounter(place).make(Count(COMMITS - 1, (COMMITS - 1) * MESSAGES))
    with opened(place) as store:
        assert contents(store) == killed.states[-1]
    assert CommitCounter(place).read() == Count(COMMITS, COMMITS * MESSAGES)


def test_commit_is_counted_on_the_disk_before_the_commit_returns(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1, 6):
            store.commit(committing(rows=[some_row(number)._replace(messages=10)]))
            assert CommitCounter(tmp_path).read() == Count(number, 10 * number)
        store.reclaim_space()
    with opened(tmp_path):
        assert CommitCounter(tmp_path).read() == Count(5, 50)


def test_count_that_was_torn_leaves_the_earlier_count(tmp_path: Path) -> None:
    counter = CommitCounter(tmp_path)
    counter.make(Count(6, 60))
    counter.open(Count(6, 60))
    counter.write(Count(7, 70))
    counter.close()
    octets = bytearray(counter.path.read_bytes())
    assert counter.read() == Count(7, 70)
    octets[SLOT_BYTES + 12] ^= 1
    counter.path.write_bytes(octets)
    assert counter.read() == Count(6, 60)


@pytest.mark.parametrize("octets", [b"", bytes(2 * SLOT_BYTES), b"PnstCmt1" * 1024])
def test_damaged_commit_counter_is_refused_with_advice(killed: Killed, octets: bytes) -> None:
    place = killed.left(killed.log)
    (place / COUNTER_FILE).write_bytes(octets)
    assert refusal(place) == (
        f"the count of transactions '{place / COUNTER_FILE}' is damaged, so it is unknown whether the store beside it "
        "is complete; remove that file to start with the present contents"
    )
    (place / COUNTER_FILE).unlink()
    with opened(place) as store:
        assert contents(store) == killed.states[-1]


def test_directory_without_a_count_is_opened_and_gets_a_count(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = 2")
        schema.migrate(connection, tmp_path / FILE, schema.MIGRATIONS[:2])
    with opened(tmp_path) as store:
        store.commit(commit_of(1))
    assert CommitCounter(tmp_path).read() == Count(1, MESSAGES)


def test_backup_may_be_opened_and_is_counted_on(killed: Killed, tmp_path: Path) -> None:
    with opened(killed.left(killed.log)) as store:
        store.backup(tmp_path / "copy")
    assert CommitCounter(tmp_path / "copy").read() == Count(COMMITS, COMMITS * MESSAGES)
    with opened(tmp_path / "copy") as store:
        store.commit(commit_of(COMMITS + 1))
    assert CommitCounter(tmp_path / "copy").read() == Count(COMMITS + 1, (COMMITS + 1) * MESSAGES)


@pytest.mark.parametrize(
    ("known", "found", "said"),
    [
        (Count(5, 9), Count(4, 9), "the last transaction of 5, which brought no message"),
        (Count(1500, 9), Count(3, 8), "the last 1,497 transactions of 1,500, which brought 1 message"),
        (Count(5, 3000), Count(3, 1000), "the last 2 transactions of 5, which brought 2,000 messages"),
    ],
)
def test_transaction_count_shows_how_much_is_lost(known: Count, found: Count, said: str) -> None:
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


def test_transaction_count_behind_the_counter_file_is_refused_with_advice(tmp_path: Path) -> None:
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
