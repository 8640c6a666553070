"""Reading of a task with several slices of a stream, see `slices.packed`.

The slices are asked for together, in order, and a block has as many of them as fit. As with one slice (`fetch`), one
request is always ahead, and a task holds two blocks at most.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.client.errors import ControlError
from pyspark_penstock.blocks import Block, Read, decode
from pyspark_penstock.connections import BrokerLink, finish_task, query_of_task, shared_link
from pyspark_penstock.errors import BlockError
from pyspark_penstock.offsets import Range
from pyspark_penstock.options import SourceOptions
from pyspark_penstock.servers import refused
from pyspark_penstock.slices import Slice, report_hole
from pyspark_penstock.unreadable import warn_of_unreadable

if TYPE_CHECKING:
    import pyarrow as pa

RANGES_MAX = 1_000
"""Most ranges of one request: as many as the broker takes."""
RANGES_OCTETS = 128 * 1024
"""Octets of the ranges of one request from which on no more are added; the broker takes twice as many."""


def packed_batches(slices: tuple[Slice, ...], options: SourceOptions) -> Iterator["pa.RecordBatch"]:
    """Yield the messages of the slices of a task in order, as blocks arrive.

    Raises `CursorError` when the broker refuses (fenced, queue deleted) or has fewer messages than were planned,
    `BlockError` for a malformed block and `BrokerUnreachable` after all retries. The task's next attempt then reads the
    same rows again.
    """
    reading = Reading(slices, options)
    server = slices[0].server
    link = shared_link(options.access, server, options.retries)
    link.send("cursor.range", reading.request())
    try:
        while True:
            block = decode(link.receive_block(), options.columns)
            reading.advance(block)
            if block.unreadable:
                warn_of_unreadable(server, [read.queue for read in block.reads if read.rows], block)
            if not reading.complete:
                link.send("cursor.range", reading.request())
            reading.report_holes()
            if block.rows:
                yield block.batch
            if reading.complete:
                return
    except ControlError as refusal:
        raise refused(refusal, options, server) from refusal
    finally:
        _tidy(link)
        finish_task()


def _tidy(link: BrokerLink) -> None:
    # Spark may stop early (a limit, a killed task): the next request must not get this one's answer.
    if link.waiting:
        link.close()


class Reading:
    """Progress of a task through its slices."""

    def __init__(self, slices: tuple[Slice, ...], options: SourceOptions) -> None:
        """Begin before the first slice."""
        self.slices = slices
        self._options = options
        self._at = 0
        """Index of the slice that is being read."""
        self._lo = slices[0].lo
        """Sequence up to which it was read."""
        self._found = 0
        """Messages of it so far."""
        self._holes: list[tuple[Slice, int]] = []
        """Slices that had fewer messages than were planned, with the number of these."""

    @property
    def complete(self) -> bool:
        """True if all slices were read."""
        return self._at == len(self.slices)

    def request(self) -> dict[str, object]:
        """Return the request for the next block."""
        options = self._options
        return {
            "cursor": options.cursor,
            "token": self.slices[0].token,
            "ranges": self._ranges(),
            "rows": options.block_rows,
            "bytes": options.block_bytes,
            "columns": [name for name in options.columns if name != "queue"] or ["sequence"],
            "query": query_of_task() or None,
        }

    def _ranges(self) -> list[tuple[str, int, int]]:
        ranges: list[tuple[str, int, int]] = []
        octets = 0
        for each in self.slices[self._at : self._at + RANGES_MAX]:
            ranges.append((each.queue, each.lo if ranges else self._lo, each.hi))
            octets += len(json.dumps(ranges[-1]))
            if octets >= RANGES_OCTETS:
                break
        return ranges

    def advance(self, block: Block) -> None:
        """Record a block. Raises `BlockError` if it is no answer to the request."""
        if not block.reads:
            raise BlockError("the broker answered a request for several ranges with a block of one")
        for read in block.reads:
            self._advance_by(read)

    def _advance_by(self, read: Read) -> None:
        now = self.slices[self._at] if not self.complete else None
        if now is None or read.queue != now.queue or not self._lo < read.reached <= now.hi:
            due = "no more" if now is None else f"({self._lo}, {now.hi}] of '{now.queue}'"
            raise BlockError(f"the broker sent '{read.queue}' up to {read.reached} where {due} was due")
        self._found += read.rows
        self._lo = read.reached
        if read.reached < now.hi:
            return
        if self._found < now.rows:
            self._holes.append((now, self._found))
        self._at += 1
        self._found = 0
        self._lo = self.slices[self._at].lo if not self.complete else 0

    def report_holes(self) -> None:
        """Report slices that had fewer messages than were planned; raises `CursorError` as `report_hole`."""
        for slice_, found in self._holes:
            whole = Range(slice_.queue, slice_.lo, slice_.hi)
            report_hole(whole, slice_.rows, found, self._options.fail_on_data_loss)
        self._holes.clear()
