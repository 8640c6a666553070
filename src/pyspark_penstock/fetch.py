"""Executors' half of the source: a fixed range of one queue as a stream of record batches.

While Spark processes one batch, the broker prepares the next: one request is always ahead, and never more, so that a
task holds two blocks at most. Reading removes nothing at the broker, and a range may be read again.

A task of a batch read may come after the end of its lease: it waited for a core, its broker was restarted, or Spark
reads the frame again for each batch of a stream. It opens a lease for its own range then.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.client.errors import ControlError
from pyspark_penstock.batch_options import BatchOptions, ReadOptions
from pyspark_penstock.blocks import Block, decode
from pyspark_penstock.connections import finish_task, query_of_task, shared_link
from pyspark_penstock.errors import BlockError
from pyspark_penstock.offsets import Range
from pyspark_penstock.servers import has_ended, refused
from pyspark_penstock.slices import TRANSIENT, UNPINNED, Slice, report_gone, report_hole
from pyspark_penstock.unreadable import warn_of_unreadable

if TYPE_CHECKING:
    import pyarrow as pa

REOPENED_MOST = 8
"""Leases that are opened in a row for one block: a lease that ends before its first block is too short to read by."""


def record_batches(slice_: Slice, options: ReadOptions) -> Iterator["pa.RecordBatch"]:
    """Yield the messages of a slice in order, as blocks arrive.

    Raises `CursorError` when the broker refuses (fenced, queue deleted) or has fewer messages than were planned,
    `BlockError` for a malformed block and `BrokerUnreachable` after all retries. The task's next attempt then reads the
    same rows again.
    """
    fetch = Fetch(slice_, options)
    try:
        yield from fetch.batches()
    except ControlError as refusal:
        raise refused(refusal, options, slice_.server) from refusal
    finally:
        fetch.tidy()
        finish_task()


class Fetch:
    """The fetching of one slice, block after block."""

    def __init__(self, slice_: Slice, options: ReadOptions) -> None:
        """Store the slice; nothing is requested yet."""
        self._slice, self._options = slice_, options
        self._link = shared_link(options.access, slice_.server, options.retries)
        self._lo = slice_.lo
        self._found = 0
        self._lease = (slice_.lease, slice_.token)

    def batches(self) -> Iterator["pa.RecordBatch"]:
        """Yield the blocks as record batches."""
        slice_, options = self._slice, self._options
        self._request()
        while True:
            block = decode(self._received(), options.columns)
            warn_of_unreadable(slice_.server, [slice_.queue], block)
            self._lo = _moved(slice_, self._lo, block)
            if self._lo < slice_.hi:
                self._request()
            self._found += block.rows
            if self._lo >= slice_.hi and self._found < slice_.rows:
                self._report(slice_.rows - self._found)
            if block.rows:
                yield block.batch
            if self._lo >= slice_.hi:
                return

    def tidy(self) -> None:
        """Close the connection if Spark has stopped early: the next request must not get this one's answer."""
        if self._link.waiting:
            self._link.close()

    def _received(self) -> memoryview:
        """Return the requested block; if the lease has ended, under another one."""
        reopened = 0
        while True:
            try:
                return self._link.receive_block()
            except ControlError as refusal:
                if not self._slice.lease or not has_ended(refusal) or reopened == REOPENED_MOST:
                    raise
            reopened += 1
            self._reopen()
            self._request()

    def _reopen(self) -> None:
        """Open a lease for the rest of the range.

        Raises `CursorError` if one of its messages is gone; with ``failOnDataLoss=false`` a warning is logged.
        """
        slice_, options = self._slice, self._options
        assert isinstance(options, BatchOptions)
        answer = self._link.ask(
            "lease.open",
            {
                "queues": [slice_.queue],
                "borders": {slice_.queue: [self._lo, slice_.hi]},
                "planned": slice_.token,
                "timeout_ms": options.lease_ms,
                "query": query_of_task() or None,
            },
        )
        self._lease = (int(answer["lease"]), int(answer["token"]))
        (rows,) = answer["rows"].get(slice_.queue, [None])
        earliest = int(answer["queues"][slice_.queue]["earliest"])
        if slice_.rows:
            if rows is not None and rows < slice_.rows - self._found:
                self._report(slice_.rows - self._found - rows)
        elif slice_.pinned and earliest > self._lo:
            # Messages on the disk were not counted. Those before the earliest that is left have gone.
            whole = Range(slice_.queue, self._lo, min(earliest, slice_.hi))
            report_gone(whole, options.fail_on_data_loss)

    def _report(self, gone: int) -> None:
        """Report messages that are gone. Raises `CursorError`, as `report_hole`."""
        slice_, options = self._slice, self._options
        whole = Range(slice_.queue, slice_.lo, slice_.hi)
        reason = UNPINNED if slice_.lease else TRANSIENT
        report_hole(whole, slice_.rows, slice_.rows - gone, options.fail_on_data_loss, reason)

    def _request(self) -> None:
        slice_, options = self._slice, self._options
        lease, token = self._lease
        holder: dict[str, object] = {"lease": lease} if lease else {"cursor": options.cursor}
        fields = {
            **holder,
            "token": token,
            "queue": slice_.queue,
            "lo": self._lo,
            "hi": slice_.hi,
            "rows": options.block_rows,
            "bytes": options.block_bytes,
            "columns": [name for name in options.columns if name != "queue"] or ["sequence"],
            "query": query_of_task() or None,
        }
        self._link.send("cursor.range", fields)


def _moved(slice_: Slice, lo: int, block: Block) -> int:
    if block.rows == 0:
        return slice_.hi  # Sequence numbers have gaps: nothing is left in the range.
    if not lo < block.last <= slice_.hi:
        raise BlockError(
            f"the broker answered ({lo}, {slice_.hi}] of '{slice_.queue}' with a block that ends at {block.last}"
        )
    return block.last
