"""Decoder of message blocks into Arrow record batches, without copying a message.

A block (``application/vnd.penstock.block``) is ``PSB1``, the header's length, a JSON header and buffers in Arrow's own
layout, each at a multiple of 64 bytes. The arrays of the batch point into the block's memory; no Python object is made
per message. All bounds are checked before use: a malformed block raises an error and never reads other memory.
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark_penstock.errors import BlockError
from pyspark_penstock.schema import DEFAULT_COLUMNS, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

CONTENT_TYPE = "application/vnd.penstock.block"
MAGIC = b"PSB1"
ROWS_MAX = 1_000_000
"""Most rows of a block; the broker sends a tenth of this number."""
REPEATED_MAX = 256 << 20
"""Most bytes of a value that is given once for all rows, times the rows."""
_PREFIX = 8  # Magic, and a little-endian u32 with the length of the header.


@dataclass(frozen=True, slots=True)
class Read:
    """Range of a queue in a block: its rows there, and the sequence up to which it was read."""

    queue: str
    rows: int
    reached: int


@dataclass(frozen=True, slots=True)
class Block:
    """Messages of queues, in order: of one range, or of several ranges one after the other."""

    rows: int
    last: int
    """Sequence after which the next block begins; 0 for several ranges."""
    batch: "pa.RecordBatch"
    reads: tuple[Read, ...] = ()
    """The ranges of a request for several, as far as they are in the block."""
    unreadable: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Number of messages with an unreadable property, and the sequence of the first, by property."""


def decode(body: bytes | memoryview, columns: tuple[str, ...] = DEFAULT_COLUMNS) -> Block:
    """Return these columns of the messages of a block; see `Decoder.decode`."""
    return Decoder(columns).decode(body)


class Decoder:
    """Decoder of blocks of one reader. A column with the same value in all blocks is built once."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        """Store the columns."""
        self._columns = columns
        self._repeated: dict[str, tuple[object, pa.Array]] = {}
        """The last repeated value of each column, and its rows: at most one entry for each column."""

    def decode(self, body: bytes | memoryview) -> Block:
        """Return the messages of a block, sharing its memory.

        Raises `BlockError` when the block is malformed, or lacks a column.
        """
        import pyarrow as pa

        header = _header(body)
        try:
            rows = _count(header["rows"], ROWS_MAX)
            reads = _reads(header["ranges"], rows) if "ranges" in header else ()
            last = 0 if reads else _count(header["last"], 2**63 - 1)
            found = {**header["columns"], "queue": _queue_column(reads) if reads else {"all": header["queue"]}}
            missing = [name for name in self._columns if name not in found]
            if missing:
                raise BlockError(f"the broker sent no column {', '.join(missing)}: it is older than this package")
            whole = pa.py_buffer(body)
            schema = arrow_schema(self._columns)
            arrays = [self._column(whole, field, found[field.name], rows) for field in schema]
            most = last if "last" in header else 2**63 - 1
            unreadable = {
                str(name): (_count(count, rows), _count(first, most))
                for name, (count, first) in header.get("unreadable", {}).items()
            }
            return Block(rows, last, pa.RecordBatch.from_arrays(arrays, schema=schema), reads, unreadable)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            raise BlockError(f"a block of {len(body)} bytes from the broker is malformed: {error!r}") from error

    def _column(self, whole: "pa.Buffer", field: "pa.Field", column: dict[str, Any], rows: int) -> "pa.Array":
        if "all" not in column:
            return _array(whole, field.type, column, rows)
        value = column["all"]
        known = self._repeated.get(field.name)
        if known is not None and type(known[0]) is type(value) and known[0] == value and len(known[1]) == rows:
            return known[1]
        array = _repeated(field.type, value, rows)
        self._repeated[field.name] = value, array
        return array


def _queue_column(reads: tuple[Read, ...]) -> dict[str, Any]:
    """Return the column of the queues of ranges: one value for all rows if all are of one queue."""
    queues = {read.queue for read in reads if read.rows}
    return {"all": queues.pop() if queues else ""} if len(queues) <= 1 else {"reads": reads}


def _header(body: bytes | memoryview) -> dict[str, Any]:
    length = int.from_bytes(body[4:_PREFIX], "little")
    if body[:4] != MAGIC or len(body) < _PREFIX + length:
        raise BlockError(
            f"a block of {len(body)} bytes from the broker does not begin with {MAGIC!r} and a whole header"
        )
    try:
        header = json.loads(bytes(body[_PREFIX : _PREFIX + length]))
    except (ValueError, RecursionError) as error:
        raise BlockError(f"a block from the broker has a header that is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise BlockError("a block from the broker has a header that is not a JSON object")
    return header


def _count(value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no number from 0 to {most}")
    return value


def _reads(ranges: object, rows: int) -> tuple[Read, ...]:
    """Return the ranges in a header, whose rows must be the block's."""
    if not isinstance(ranges, list) or not ranges:
        raise ValueError(f"ranges are {ranges!r:.100}")
    reads = tuple(Read(queue, _count(count, rows), _count(reached, 2**63 - 1)) for queue, count, reached in ranges)
    if sum(each.rows for each in reads) != rows or not all(isinstance(each.queue, str) for each in reads):
        raise ValueError(f"ranges of {sum(each.rows for each in reads)} rows are in a block of {rows}")
    if sum(len(each.queue) * each.rows for each in reads) > REPEATED_MAX:
        raise ValueError(f"{rows} rows of such long names of queues are too many")
    return reads


def _array(whole: "pa.Buffer", kind: "pa.DataType", column: dict[str, Any], rows: int) -> "pa.Array":
    import pyarrow as pa

    if "all" in column:
        return _repeated(kind, column["all"], rows)
    if "reads" in column:
        return _run_by_run(kind, column["reads"])
    valid = _buffer(whole, column["valid"], -(-rows // 8)) if "valid" in column else None
    if pa.types.is_struct(kind):
        children = [_array(whole, field.type, column[field.name], rows) for field in kind]
        return pa.Array.from_buffers(kind, rows, [valid], children=children)
    if "offsets" not in column:
        return pa.Array.from_buffers(
            kind, rows, [valid, _buffer(whole, column["data"], -(-rows * kind.bit_width // 8))]
        )
    offsets = _buffer(whole, column["offsets"], 4 * (rows + 1))
    if pa.types.is_list(kind):
        # An item takes at least a byte, or is the only one of its row: a larger number would allocate too much.
        items = column["items"]
        child = _array(whole, kind.value_type, items["columns"], _count(items["rows"], whole.size))
        array = pa.Array.from_buffers(kind, rows, [valid, offsets], children=[child])
    else:
        array = pa.Array.from_buffers(kind, rows, [valid, offsets, _buffer(whole, column["data"], 0)])
    # Every offset is checked (and every text, for UTF-8): about 10 ns per row against a crash of the JVM.
    array.validate(full=True)
    return array


def _repeated(kind: "pa.DataType", value: object, rows: int) -> "pa.Array":
    import pyarrow as pa

    if value is None:
        return pa.nulls(rows, kind)
    if isinstance(value, str) and len(value) * rows > REPEATED_MAX:
        raise ValueError(f"{rows} rows of a text of {len(value)} letters are too many")
    return pa.repeat(pa.scalar(value, type=kind), rows)


def _run_by_run(kind: "pa.DataType", reads: tuple[Read, ...]) -> "pa.Array":
    """Return the queue of each row of ranges."""
    import pyarrow as pa
    import pyarrow.compute as pc

    runs = [read for read in reads if read.rows]
    ends = pa.array(itertools.accumulate(read.rows for read in runs), pa.int32())
    queues = pa.array([read.queue for read in runs], kind)
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, queues))


def _buffer(whole: "pa.Buffer", place: list[int], least: int) -> "pa.Buffer":
    start, length = (_count(number, whole.size) for number in place)
    if length < least or start + length > whole.size:
        raise ValueError(
            f"a buffer at {start}, {length} bytes long, where {least} are needed and the block has {whole.size}"
        )
    return whole.slice(start, length)
