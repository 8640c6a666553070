"""Executors' half of the source: a fixed range of one queue as a stream of record batches.

While Spark processes one batch, the broker prepares the next: one request is always ahead, and never more, so that a
task holds two blocks at most. Reading removes nothing at the broker, and a range may be read again.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.client.errors import ControlError
from pyspark_penstock.batch_options import ReadOptions
from pyspark_penstock.blocks import Block, decode
from pyspark_penstock.connections import BrokerLink, finish_task, query_of_task, shared_link
from pyspark_penstock.errors import BlockError
from pyspark_penstock.logs import LOG
from pyspark_penstock.offsets import Range
from pyspark_penstock.parsing import Address
from pyspark_penstock.servers import refused
from pyspark_penstock.slices import Slice, report_hole

if TYPE_CHECKING:
    import pyarrow as pa

WARNED_MAX = 1_000
"""Most warnings that are remembered, so that none is logged twice; at the bound they are forgotten."""
_warned: set[tuple[Address, str, str]] = set()


def record_batches(slice_: Slice, options: ReadOptions) -> Iterator["pa.RecordBatch"]:
    """Yield the messages of a slice in order, as blocks arrive.

    Raises `CursorError` when the broker refuses (fenced, queue deleted) or has fewer messages than were planned,
    `BlockError` for a malformed block and `BrokerUnreachable` after all retries. The task's next attempt then reads the
    same rows again.
    """
    found = 0
    link = shared_link(options.access, slice_.server, options.retries)
    lo = slice_.lo
    link.send("cursor.range", _request(slice_, options, lo))
    try:
        while True:
            block = decode(link.receive_block(), options.columns)
            _warn_of_unreadable(slice_, block)
            lo = _moved(slice_, lo, block)
            if lo < slice_.hi:
                link.send("cursor.range", _request(slice_, options, lo))
            found += block.rows
            if lo >= slice_.hi and found < slice_.rows:
                whole = Range(slice_.queue, slice_.lo, slice_.hi)
                report_hole(whole, slice_.rows, found, options.fail_on_data_loss)
            if block.rows:
                yield block.batch
            if lo >= slice_.hi:
                return
    except ControlError as refusal:
        raise refused(refusal, options, slice_.server) from refusal
    finally:
        _tidy(link)
        finish_task()


def _warn_of_unreadable(slice_: Slice, block: Block) -> None:
    """Warn of what cannot be read in a block, once for each queue and property in a process."""
    for name, (count, first) in block.unreadable.items():
        key = (slice_.server, slice_.queue, name)
        if key in _warned:
            continue
        if len(_warned) >= WARNED_MAX:
            _warned.clear()
        _warned.add(key)
        what = "a header whose name is not UTF-8, which is" if name == "header" else f"{_article(name)}, which is"
        LOG.warning(
            "penstock: message %d of queue '%s' at %s has %s left out; the others are read (%d of %d messages here)",
            first,
            slice_.queue,
            slice_.server,
            what,
            count,
            block.rows,
        )


def _article(name: str) -> str:
    return "headers that cannot be read" if name == "headers" else f"a {name} that cannot be read or is not UTF-8"


def _tidy(link: BrokerLink) -> None:
    # Spark may stop early (a limit, a killed task): the next request must not get this one's answer.
    if link.waiting:
        link.close()


def _request(slice_: Slice, options: ReadOptions, lo: int) -> dict[str, object]:
    holder: dict[str, object] = {"cursor": options.cursor, "token": slice_.token}
    return {
        **({"lease": slice_.lease} if slice_.lease else holder),
        "queue": slice_.queue,
        "lo": lo,
        "hi": slice_.hi,
        "rows": options.block_rows,
        "bytes": options.block_bytes,
        "columns": [name for name in options.columns if name != "queue"] or ["sequence"],
        "query": query_of_task() or None,
    }


def _moved(slice_: Slice, lo: int, block: Block) -> int:
    if block.rows == 0:
        return slice_.hi  # Sequence numbers have gaps: nothing is left in the range.
    if not lo < block.last <= slice_.hi:
        raise BlockError(
            f"the broker answered ({lo}, {slice_.hi}] of '{slice_.queue}' with a block that ends at {block.last}"
        )
    return block.last
