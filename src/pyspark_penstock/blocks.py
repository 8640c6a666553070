"""Decoder of message blocks into Arrow record batches, without copying a message.

A block (``application/vnd.penstock.block``) is ``PSB1``, the header's length, a JSON header and buffers in Arrow's own
layout, each at a multiple of 64 octets. The arrays of the batch point into the block's memory; no Python object is made
per message. All bounds are checked before use: a malformed block raises an error and never reads other memory.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark_penstock.errors import BlockError
from pyspark_penstock.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

CONTENT_TYPE = "application/vnd.penstock.block"
MAGIC = b"PSB1"
_PREFIX = 8  # Magic, and a little-endian u32 with the length of the header.


@dataclass(frozen=True, slots=True)
class Block:
    """Messages of one queue, in order; `last` is the sequence number after which the next block begins."""

    rows: int
    last: int
    batch: "pa.RecordBatch"


def decode(body: bytes | memoryview) -> Block:
    """Return the messages of a block, sharing its memory.

    Raises `BlockError` when the block is malformed.
    """
    import pyarrow as pa

    header = _header(body)
    try:
        rows, queue, last = header["rows"], header["queue"], header["last"]
        columns = {**header["columns"], "queue": {"all": queue}}
        whole = pa.py_buffer(body)
        arrays = [_array(whole, field.type, columns[field.name], rows) for field in arrow_schema()]
        batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema())
        return Block(int(rows), int(last), batch)
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise BlockError(f"a block of {len(body)} octets from the broker is malformed: {error!r}") from error


def _header(body: bytes | memoryview) -> dict[str, Any]:
    length = int.from_bytes(body[4:_PREFIX], "little")
    if body[:4] != MAGIC or len(body) < _PREFIX + length:
        raise BlockError(
            f"a block of {len(body)} octets from the broker does not begin with {MAGIC!r} and a whole header"
        )
    try:
        header = json.loads(bytes(body[_PREFIX : _PREFIX + length]))
    except ValueError as error:
        raise BlockError(f"a block from the broker has a header that is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise BlockError("a block from the broker has a header that is not a JSON object")
    return header


def _array(whole: "pa.Buffer", kind: "pa.DataType", column: dict[str, Any], rows: int) -> "pa.Array":
    import pyarrow as pa

    if "all" in column:
        return pa.repeat(pa.scalar(column["all"], type=kind), rows)
    valid = _buffer(whole, column["valid"], -(-rows // 8)) if "valid" in column else None
    if "offsets" not in column:
        return pa.Array.from_buffers(
            kind, rows, [valid, _buffer(whole, column["data"], -(-rows * kind.bit_width // 8))]
        )
    offsets, data = _buffer(whole, column["offsets"], 4 * (rows + 1)), _buffer(whole, column["data"], 0)
    array = pa.Array.from_buffers(kind, rows, [valid, offsets, data])
    # Every offset is checked (and every text, for UTF-8): some 10 ns per row against a crash of the JVM.
    array.validate(full=True)
    return array


def _buffer(whole: "pa.Buffer", place: list[int], least: int) -> "pa.Buffer":
    start, length = place
    if start < 0 or length < least or start + length > whole.size:
        raise ValueError(
            f"a buffer at {start}, {length} octets long, where {least} are needed and the block has {whole.size}"
        )
    return whole.slice(start, length)
