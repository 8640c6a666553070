"""Executors' half of the source: the slices of a task as a stream of record batches.

A stream requests its slices together, in order, and a block has as many of them as fit. A single slice is the usual
case. While Spark processes one batch, the broker prepares the next: one request is always ahead, and never more, so
that a task holds two blocks at most. Reading removes nothing at the broker, and a range may be read again.

A task of a batch read may start after the end of its lease. The task waited for a core, its broker was restarted, or
Spark reads the frame again for each batch of a stream. Then the task opens a lease for its own range.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.client.errors import ControlError
from pyspark_penstock.batch_options import BatchOptions, ReadOptions
from pyspark_penstock.blocks import Block, Decoder, Read
from pyspark_penstock.connections import finish_task, query_of_task, shared_link
from pyspark_penstock.errors import BlockError
from pyspark_penstock.offsets import Range
from pyspark_penstock.servers import has_ended, refused
from pyspark_penstock.slices import TRANSIENT, UNPINNED, Slice, report_gone, report_hole
from pyspark_penstock.unreadable import warn_of_unreadable

if TYPE_CHECKING:
    import pyarrow as pa

REOPENED_MOST = 8
"""Most leases opened in a row for one block: a lease that ends before its first block is too short for reading."""
RANGES_MAX = 1_000
"""Most ranges of one request: the broker's limit."""
RANGES_OCTETS = 128 * 1024
"""Bytes of the ranges of one request from which no more are added; the broker allows twice as many."""

ROWS_LEAST = 2_000
"""Least rows of a request, even after a smaller block, such as a block of one large message."""


def record_batches(slices: tuple[Slice, ...], options: ReadOptions) -> Iterator["pa.RecordBatch"]:
    """Yield the messages of the slices of a task in order, as blocks arrive.

    Raises `CursorError` when the broker refuses (fenced, queue deleted) or has fewer messages than were planned,
    `BlockError` for a malformed block and `BrokerUnreachable` after all retries. The task's next attempt then reads the
    same rows again.
    """
    fetch = Fetch(slices, options)
    try:
        yield from fetch.batches()
    except ControlError as refusal:
        raise refused(refusal, options, slices[0].server) from refusal
    finally:
        fetch.tidy()
        finish_task()


def rows_after(rows: int, most: int) -> int:
    """Return the rows to request after a block of `rows`; `most` is the option ``fetchBlockRows``.

    The broker lists as many messages as requested, and cuts the block if the properties are too much work for one turn.
    A quarter more lets blocks grow when messages get simpler.
    """
    return min(most, max(rows + rows // 4, ROWS_LEAST))


class Progress:
    """Progress of a task through its slices."""

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        """Begin before the first slice."""
        self._slices = slices
        self._at = 0
        """Index of the current slice."""
        self.lo = slices[0].lo
        """Sequence up to which this slice was read."""
        self.found = 0
        """Messages of this slice so far."""
        self.holes: list[tuple[Slice, int]] = []
        """Slices with fewer messages than planned, and the number of their messages."""

    @property
    def complete(self) -> bool:
        """True if all slices were read."""
        return self._at == len(self._slices)

    def ranges(self) -> list[tuple[str, int, int]]:
        """Return the ranges of the next request: the rest of the present slice, and the following slices."""
        ranges: list[tuple[str, int, int]] = []
        octets = 0
        for each in self._slices[self._at : self._at + RANGES_MAX]:
            ranges.append((each.queue, each.lo if ranges else self.lo, each.hi))
            octets += len(json.dumps(ranges[-1]))
            if octets >= RANGES_OCTETS:
                break
        return ranges

    def advance(self, block: Block) -> None:
        """Record a block. Raises `BlockError` if the block does not answer a request for `ranges`."""
        if block.reads:
            for read in block.reads:
                self._advance_by(read)
            return
        if self._at != len(self._slices) - 1:
            raise BlockError("the broker answered a request for several ranges with a block of one")
        slice_ = self._slices[self._at]
        # Sequence numbers have gaps: a block without rows means that the range has no more messages.
        self._advance_by(Read(slice_.queue, block.rows, block.last if block.rows else slice_.hi))

    def _advance_by(self, read: Read) -> None:
        now = self._slices[self._at] if not self.complete else None
        if now is None or read.queue != now.queue or not self.lo < read.reached <= now.hi:
            due = "no more" if now is None else f"({self.lo}, {now.hi}] of '{now.queue}'"
            raise BlockError(f"the broker sent '{read.queue}' up to {read.reached} where {due} was due")
        self.found += read.rows
        self.lo = read.reached
        if read.reached < now.hi:
            return
        if self.found < now.rows:
            self.holes.append((now, self.found))
        self._at += 1
        self.found = 0
        self.lo = self._slices[self._at].lo if not self.complete else 0


class Fetch:
    """The fetching of the slices of a task, block after block."""

    def __init__(self, slices: tuple[Slice, ...], options: ReadOptions) -> None:
        """Store the slices without a request."""
        self._options = options
        self._first = slices[0]
        """The only slice of a batch read."""
        self._link = shared_link(options.access, slices[0].server, options.retries)
        self._progress = Progress(slices)
        self._decoder = Decoder(options.columns)
        self._fields: dict[str, object] = {
            **self._holder(slices[0].lease, slices[0].token),
            "rows": options.block_rows,
            "bytes": options.block_bytes,
            "columns": [name for name in options.columns if name != "queue"] or ["sequence"],
            "query": query_of_task() or None,
        }
        """Fields of all requests."""

    def batches(self) -> Iterator["pa.RecordBatch"]:
        """Yield the blocks as record batches."""
        progress = self._progress
        self._request()
        while True:
            block = self._decoder.decode(self._received())
            progress.advance(block)
            if block.unreadable:
                queues = [read.queue for read in block.reads if read.rows] or [self._first.queue]
                warn_of_unreadable(self._first.server, queues, block)
            if not progress.complete:
                self._fields["rows"] = rows_after(block.rows, self._options.block_rows)
                self._request()
            for slice_, found in progress.holes:
                self._report(slice_, slice_.rows - found)
            progress.holes.clear()
            if block.rows:
                yield block.batch
            if progress.complete:
                return

    def tidy(self) -> None:
        """Close the connection if Spark has stopped early: the next request must not get this answer."""
        if self._link.waiting:
            self._link.close()

    def _received(self) -> memoryview:
        """Return the requested block; if the lease has ended, under a new lease."""
        reopened = 0
        while True:
            try:
                return self._link.receive_block()
            except ControlError as refusal:
                if not self._first.lease or not has_ended(refusal) or reopened == REOPENED_MOST:
                    raise
            reopened += 1
            self._reopen()
            self._request()

    def _reopen(self) -> None:
        """Open a lease for the rest of the range.

        Raises `CursorError` if one of its messages is gone; with ``failOnDataLoss=false`` a warning is logged.
        """
        slice_, options, progress = self._first, self._options, self._progress
        assert isinstance(options, BatchOptions)
        answer = self._link.ask(
            "lease.open",
            {
                "queues": [slice_.queue],
                "borders": {slice_.queue: [progress.lo, slice_.hi]},
                "planned": slice_.token,
                "timeout_ms": options.lease_ms,
                "query": query_of_task() or None,
            },
        )
        self._fields |= self._holder(int(answer["lease"]), int(answer["token"]))
        (rows,) = answer["rows"].get(slice_.queue, [None])
        earliest = int(answer["queues"][slice_.queue]["earliest"])
        if slice_.rows:
            if rows is not None and rows < slice_.rows - progress.found:
                self._report(slice_, slice_.rows - progress.found - rows)
        elif slice_.pinned and earliest > progress.lo:
            # Messages on the disk were not counted. Messages before the earliest remaining one are gone.
            whole = Range(slice_.queue, progress.lo, min(earliest, slice_.hi))
            report_gone(whole, options.fail_on_data_loss)

    def _report(self, slice_: Slice, gone: int) -> None:
        """Report missing messages. Raises `CursorError`, as `report_hole`."""
        whole = Range(slice_.queue, slice_.lo, slice_.hi)
        reason = UNPINNED if slice_.lease else TRANSIENT
        report_hole(whole, slice_.rows, slice_.rows - gone, self._options.fail_on_data_loss, reason)

    def _holder(self, lease: int, token: int) -> dict[str, object]:
        """Return the fields that name the lease, or the cursor of a stream."""
        return {"lease": lease, "token": token} if lease else {"cursor": self._options.cursor, "token": token}

    def _request(self) -> None:
        ranges = self._progress.ranges()
        if "lease" in self._fields:  # Under a lease a block has one range.
            ((queue, lo, hi),) = ranges
            self._link.send("cursor.range", {**self._fields, "queue": queue, "lo": lo, "hi": hi})
        else:
            self._link.send("cursor.range", {**self._fields, "ranges": ranges})
