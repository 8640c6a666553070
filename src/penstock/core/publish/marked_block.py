"""Mark of one block: which of its rows are in their queues already, and that the others are from now on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish.held_block import MISSING, BlockMark

if TYPE_CHECKING:
    from penstock.core.publish.sink_marks import SinkMark, SinkMarks


class MarkedBlock(BlockMark):
    """The rows of one block among those of its partition."""

    def __init__(
        self, marks: SinkMarks, mark: SinkMark, write: str, attempt: i64, first: i64, rows: i64, digest: str
    ) -> None:
        self._marks = marks
        self._mark = mark
        self._batch: i64 = mark.progress.batch
        self._write = write
        self._attempt: i64 = attempt
        self._first: i64 = first
        """Number of its first row in the partition."""
        self._rows: i64 = rows
        self._digest = digest
        """Digest of all rows of the partition up to its last one."""

    @override
    def first_to_take(self, row: i64) -> i64:
        self._mark.check(self._batch, self._write, self._attempt)
        taken = self._mark.rows - self._first
        if taken < 0:
            return MISSING
        return taken if taken > row else row

    @override
    def advance(self, end: i64, stored: bool) -> None:
        if self._mark.rows < self._first:
            return
        if self._first + end > self._mark.rows:
            self._marks.advance(self._mark, self._first + end, stored)
        if end == self._rows:
            self._marks.verify(self._mark, self._first + end, self._digest)
