"""Mark of one block: rows that are taken already are left out, and new ones are recorded."""

from __future__ import annotations

import struct

import pytest

from penstock.content.message_columns import NumberColumn
from penstock.errors import Fenced
from penstock.ranges.held_block import MISSING
from penstock.ranges.marks import MarkedBlock, SinkMark, SinkMarks
from tests.support.settings_bench import Bench


@pytest.fixture
def marks() -> SinkMarks:
    return SinkMarks(Bench().broker)


@pytest.fixture
def mark(marks: SinkMarks) -> SinkMark:
    return marks.begin_partition(marks.begin_batch("/", "q", "t", 0, "r", "w", "u"), 0, 3)


def block(marks: SinkMarks, mark: SinkMark, first: int, rows: int, attempt: int = 3) -> MarkedBlock:
    return MarkedBlock(marks, mark, "w", attempt, first, rows, f"digest of {first + rows}")


def test_block_takes_rows_that_the_mark_does_not_have(marks: SinkMarks, mark: SinkMark) -> None:
    marks.advance(mark, 7, True)
    assert block(marks, mark, 7, 3).first_to_take(0) == 0
    assert block(marks, mark, 5, 10).first_to_take(0) == 2
    assert block(marks, mark, 5, 10).first_to_take(4) == 4
    assert block(marks, mark, 0, 3).first_to_take(0) == 7


def test_block_after_missing_rows_takes_and_records_no_rows(marks: SinkMarks, mark: SinkMark) -> None:
    marks.advance(mark, 7, True)
    late = block(marks, mark, 9, 5)
    assert late.first_to_take(0) == MISSING
    late.advance(0, True)
    assert mark.rows == 7


def test_rows_are_recorded_on_entry_and_the_digest_at_the_end(marks: SinkMarks, mark: SinkMark) -> None:
    here = block(marks, mark, 0, 10)
    here.advance(4, True)
    assert (mark.rows, mark.checked) == (4, 0)
    here.advance(10, True)
    assert (mark.rows, mark.checked, mark.digest) == (10, 10, "digest of 10")


def test_mark_has_the_sequence_of_the_last_row_at_its_source(marks: SinkMarks, mark: SinkMark) -> None:
    column = NumberColumn("sequence", struct.pack("<4q", 3, 4, 9, 12), 8, 0, 100)
    here = MarkedBlock(marks, mark, "w", 3, 0, 4, "", column)
    here.advance(3, True)
    assert (mark.rows, mark.reached) == (3, 9)
    here.advance(2, True)
    assert (mark.rows, mark.reached) == (3, 9), "rows that are enqueued again change nothing"
    here.advance(4, True)
    assert (mark.rows, mark.reached) == (4, 12)


def test_block_of_an_older_attempt_or_batch_ends(marks: SinkMarks, mark: SinkMark) -> None:
    here = block(marks, mark, 0, 10)
    marks.begin_partition(mark.progress, 0, 4)
    with pytest.raises(Fenced):
        here.first_to_take(0)
    marks.begin_batch("/", "q", "t", 1, "r", "w1", "u")
    here.advance(10, True)
    assert mark.progress.marks == {}
