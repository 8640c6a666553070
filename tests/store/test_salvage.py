"""Salvage of a damaged file: records come out unchanged, and lost ones are reported.

A log that is damaged in its middle is refused; a log that just ends is not.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import StoreError
from penstock.store import sqlite
from penstock.store.data_file import DATA_FILE
from penstock.store.repair import repair
from penstock.store.salvage import FRAME, HEADER, Log
from penstock.store.schema import PAGE_SIZE
from penstock.store.sqlite import FILE, SqliteStore
from tests.profiles import examples, sample
from tests.support.damaged_store import Change, cut, flip
from tests.support.open_stores import (
    EMPTY,
    Contents,
    committing,
    contents,
    filled,
    opened,
    some_note,
    some_page,
    some_row,
)
from tests.support.store_process import numbered


class Subject:
    """A store that is damaged again and again, each time beginning with the file as it was written."""

    def __init__(self, whole: Path, written: Contents, ever: Contents) -> None:
        self.directory = whole.parent / "damaged"
        self.target = whole.parent / "saved"
        self.written = written
        self.ever = ever
        """All that was ever written, also what is gone: nothing else may come out."""
        self.octets = (whole / FILE).read_bytes()
        self.data = (whole / DATA_FILE).read_bytes() if (whole / DATA_FILE).exists() else None
        self.pages = len(self.octets) // PAGE_SIZE

    def suffer(self, change: Change) -> str:
        """Damage the file, open, read, check and repair it; how that ended: "refused", "told" or "whole"."""
        octets = bytearray(self.octets)
        change(octets)
        for folder in (self.directory, self.target):
            shutil.rmtree(folder, ignore_errors=True)
        self.directory.mkdir()
        self.put(self.directory, octets)
        self._repair()
        assert (self.directory / FILE).read_bytes() == octets
        return self._open()

    def put(self, directory: Path, octets: bytes) -> None:
        """Make the files of the store, its database with these octets."""
        (directory / FILE).write_bytes(octets)
        if self.data is not None:
            (directory / DATA_FILE).write_bytes(self.data)

    def _open(self) -> str:
        store = SqliteStore(self.directory)
        try:
            store.open()
        except StoreError as error:
            told = str(error)
            assert str(self.directory / FILE) in told
            return "refused"
        try:
            found = contents(store)
            checked = store.check()
        finally:
            store.close()
        assert_written(found, self.ever)
        if found != self.written:
            assert store.damaged
            assert checked
        return "told" if store.damaged else "whole"

    def _repair(self) -> None:
        saved = repair(self.directory, self.target)
        with opened(self.target) as store:
            found = contents(store)
            assert store.check() == []
        assert_written(found, self.ever)
        counts = saved.metadata, saved.positions, saved.settlements, saved.rows, saved.pieces, saved.row_bodies
        assert counts == tuple(len(each) for each in found)
        if found != self.written:
            assert saved.lost


def assert_written(found: Contents, written: Contents) -> None:
    """Each record is as it was written, in the order in which they were, and none is there twice."""
    for some, every in zip(found, written, strict=True):
        there = iter(every)
        assert all(any(record == each for each in there) for record in some)


@pytest.fixture(scope="module", params=[1 << 40, 3_000], ids=["all in the database", "most in the data file"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    whole = tmp_path_factory.mktemp("damage") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "PLACED_BYTES", request.param)
        written = filled(whole)
    return Subject(whole, written, written)


def overwrite(at: int, size: int, octet: int) -> Change:
    def change(octets: bytearray) -> None:
        octets[at : at + size] = bytes([octet]) * len(octets[at : at + size])

    return change


def test_bit_of_the_files_header(subject: Subject) -> None:
    outcomes = Counter(subject.suffer(flip(at, at % 8)) for at in sample(range(100)))
    assert min(outcomes["refused"], outcomes["whole"]) > 3


def test_bit_at_the_beginning_of_any_page(subject: Subject) -> None:
    chance = random.Random(1)
    for page in sample(range(subject.pages)):
        subject.suffer(flip(page * PAGE_SIZE + chance.randrange(24), chance.randrange(8)))


def test_page_of_zeros_or_ones(subject: Subject) -> None:
    outcomes = Counter(
        subject.suffer(overwrite(page * PAGE_SIZE, PAGE_SIZE, 0xFF if page % 2 else 0))
        for page in sample(range(subject.pages))
    )
    assert outcomes["told"] > outcomes.total() // 8


def test_page_in_the_place_of_another(subject: Subject) -> None:
    """Also ways that lead round in a circle."""
    trees = [page for page in range(subject.pages) if subject.octets[page * PAGE_SIZE] in (2, 5, 10, 13)]
    assert len(trees) > 10
    pairs = [(to, come_from) for to in trees for come_from in trees if to != come_from]
    for to, come_from in random.Random(3).sample(pairs, examples(60)):
        page = subject.octets[come_from * PAGE_SIZE :][:PAGE_SIZE]
        subject.suffer(
            lambda octets, to=to, page=page: octets.__setitem__(slice(to * PAGE_SIZE, (to + 1) * PAGE_SIZE), page)
        )


def test_file_that_was_cut_off(subject: Subject) -> None:
    for size in (0, 1, 99, 100, 512, *range(PAGE_SIZE, len(subject.octets), 7 * PAGE_SIZE // 2)):
        subject.suffer(cut(size))


def test_page_in_an_earlier_state(subject: Subject, tmp_path: Path) -> None:
    """A disk that says that it has written a page, and has not."""
    newer = tmp_path / "newer"
    newer.mkdir()
    subject.put(newer, subject.octets)
    with opened(newer) as store:
        store.commit(
            committing(
                rows=[some_row(1000), some_page(1001, 2, 5000)], settlements=[some_note(1002)], rows_gone=[30, 31],
                settlements_gone=[2], positions_gone=[1],
            )
        )  # fmt: skip
        written = contents(store)
    assert written.things == subject.written.things
    both = (
        sorted({*old, *new}, key=lambda each: each[:2])
        for old, new in zip(subject.written[1:], written[1:], strict=True)
    )
    changed = Subject(newer, written, Contents(written.things, *both))
    outcomes: Counter[str] = Counter()
    for page in range(subject.pages):
        place = slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE)
        if changed.octets[place] != subject.octets[place]:
            outcomes[changed.suffer(lambda octets, place=place: octets.__setitem__(place, subject.octets[place]))] += 1
    assert outcomes["told"] > outcomes.total() // 3


def test_bit_of_the_statements_that_make_the_tables(subject: Subject) -> None:
    begin = subject.octets.index(b"CREATE")
    for at in range(begin, PAGE_SIZE, 101):
        subject.suffer(flip(at, at % 7))


def test_statement_whose_damage_is_quoted_in_an_undecodable_error(subject: Subject) -> None:
    """SQLite quotes what it does not understand, and Python cannot decode that."""
    for begin in (b"AFTER INSERT", b"UPDATE sums"):
        assert subject.suffer(flip(subject.octets.index(begin) + 1, 7)) == "refused"


@given(places=st.lists(st.tuples(st.integers(0), st.integers(0, 7)), min_size=1, max_size=4))
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_bits_anywhere(subject: Subject, places: list[tuple[int, int]]) -> None:
    def change(octets: bytearray) -> None:
        for at, bit in places:
            octets[at * 7919 % len(octets)] ^= 1 << bit

    subject.suffer(change)


def test_unreachable_stretch_does_not_hide_later_rows(tmp_path: Path) -> None:
    rows = [some_row(number, 1500) for number in range(1000, 1400)]
    with opened(tmp_path) as store:
        store.commit(committing(rows=rows))
    octets = bytearray((tmp_path / FILE).read_bytes())
    for row in (rows[3], rows[200], rows[398]):
        page = octets.rindex(row.data) // PAGE_SIZE * PAGE_SIZE
        assert octets[page] == 0x0D
        octets[page : page + 8] = bytes(8)
    (tmp_path / FILE).write_bytes(octets)
    with opened(tmp_path) as store:
        numbers = {row.number for row in store.rows()}
    missing = sorted({row.number for row in rows} - numbers)
    assert {1003, 1200, 1398} <= set(missing)
    assert len(missing) <= 3 * 6
    *stretches, all_told = [damage.what for damage in store.damaged]
    assert len(stretches) == 3
    assert all_told == f"{len(missing)} of 400 rows"


def test_rows_without_the_root_page_are_saved(tmp_path: Path) -> None:
    """The page in which all rows begin is gone: SQLite finds none of them."""
    rows = [some_row(number, 1500) for number in range(1, 400)]
    with opened(tmp_path / "damaged") as store:
        store.commit(committing(rows=rows))
        (root,) = store._connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rows'").fetchone()
    octets = bytearray((tmp_path / "damaged" / FILE).read_bytes())
    octets[(root - 1) * PAGE_SIZE : root * PAGE_SIZE] = bytes(PAGE_SIZE)
    (tmp_path / "damaged" / FILE).write_bytes(octets)
    with opened(tmp_path / "damaged") as store:
        assert list(store.rows()) == []
        assert [damage.what for damage in store.damaged] == ["rows 0 to 399", "399 of 399 rows"]
    saved = repair(tmp_path / "damaged", tmp_path / "saved")
    assert (saved.rows, saved.lost) == (399, [])
    with opened(tmp_path / "saved") as store:
        assert list(store.rows()) == rows


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


def test_log_after_the_crash_is_read_to_the_end(crashed: Crashed) -> None:
    with opened(crashed.left(crashed.log)) as store:
        assert contents(store) == crashed.states[-1]
        assert store.damaged == []


def test_log_that_ends_anywhere_yields_the_last_whole_commit(crashed: Crashed) -> None:
    """As a power failure may leave it. (A file whose log was cut off on purpose looks the same.)"""
    for size in (0, 10, HEADER.size, *range(HEADER.size + 5, len(crashed.log), STEP // 2)):
        whole = sum(end <= size for end in crashed.ends)
        with opened(crashed.left(crashed.log[:size])) as store:
            assert contents(store) == (crashed.states[whole - 1] if whole else EMPTY)
            assert store.check() == store.damaged == []


@pytest.mark.slow
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


def test_frames_of_a_failed_transaction_behind_the_end_are_no_damage(crashed: Crashed) -> None:
    """Its last frame ends a transaction, but nothing was written that goes on from it."""
    end, last = crashed.ends[-3], crashed.ends[-2]
    place = crashed.left(flipped(crashed.log[:last], end + FRAME.size + 5))
    with opened(place) as store:
        assert contents(store) == crashed.states[-3]


def test_damaged_log_is_saved_up_to_the_end_without_the_damaged_row(crashed: Crashed, tmp_path: Path) -> None:
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


def test_log_is_read_like_sqlite(crashed: Crashed) -> None:
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
