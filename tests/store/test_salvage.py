"""Whatever happens to the file: what comes out is what was written, and what does not come out is told."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import StoreError
from penstock.store.repair import repair
from penstock.store.schema import PAGE_SIZE
from penstock.store.sqlite import FILE, SqliteStore
from tests.profiles import examples, sample
from tests.support.damaged_store import Change, cut, flip
from tests.support.open_stores import Contents, committing, contents, filled, opened, some_note, some_page, some_row


class Subject:
    """A store that is damaged again and again, each time beginning with the file as it was written."""

    def __init__(self, whole: Path, written: Contents, ever: Contents) -> None:
        self.directory = whole.parent / "damaged"
        self.target = whole.parent / "saved"
        self.written = written
        self.ever = ever
        """All that was ever written, also what is gone: nothing else may come out."""
        self.octets = (whole / FILE).read_bytes()
        self.pages = len(self.octets) // PAGE_SIZE

    def suffer(self, change: Change) -> str:
        """Damage the file, open, read, check and repair it; how that ended: "refused", "told" or "whole"."""
        octets = bytearray(self.octets)
        change(octets)
        for folder in (self.directory, self.target):
            shutil.rmtree(folder, ignore_errors=True)
        self.directory.mkdir()
        (self.directory / FILE).write_bytes(octets)
        self._repair()
        assert (self.directory / FILE).read_bytes() == octets
        return self._open()

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


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    whole = tmp_path_factory.mktemp("damage") / "whole"
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
    assert outcomes["told"] > 10


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


def test_page_that_is_as_it_was_earlier(subject: Subject, tmp_path: Path) -> None:
    """A disk that says that it has written a page, and has not."""
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / FILE).write_bytes(subject.octets)
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
    assert outcomes["told"] > 5


def test_bit_of_the_statements_that_make_the_tables(subject: Subject) -> None:
    begin = subject.octets.index(b"CREATE")
    for at in range(begin, PAGE_SIZE, 101):
        subject.suffer(flip(at, at % 7))


def test_statement_whose_damage_is_quoted_in_an_error_that_is_no_text(subject: Subject) -> None:
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


def test_stretch_that_cannot_be_reached_does_not_hide_what_is_behind_it(tmp_path: Path) -> None:
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


def test_what_nothing_leads_to_any_more_is_saved(tmp_path: Path) -> None:
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
