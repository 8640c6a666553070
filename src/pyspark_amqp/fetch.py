"""Executors' half of the source: a range of a spool as record batches, from files that the driver's process wrote."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark_amqp.errors import SpoolUnusable
from pyspark_amqp.spool.errors import SpoolError
from pyspark_amqp.spool.log import Frame, Octets, frames_in, read_batch, read_file, read_segment_head, segment_name
from pyspark_penstock.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS: Final = 5_000
"""Rows from which a record batch is passed on; smaller frames are put together."""
BATCH_OCTETS: Final = 4 << 20
"""Bytes from which a record batch is passed on."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Range read by one task: ``lo < number <= hi``, beginning with a frame at an offset of a segment."""

    folder: str
    spool_id: str
    lo: int
    hi: int
    segment: int
    offset: int


def record_batches(slice_: Slice, columns: tuple[str, ...]) -> Iterator["pa.RecordBatch"]:
    """Yield the messages of a slice in order.

    Raises `SpoolUnusable` when a segment cannot be read here, or is damaged.
    """
    pieces: list[pa.RecordBatch] = []
    rows = octets = 0
    for frame, batch in _pieces(slice_, columns):
        pieces.append(batch)
        rows += batch.num_rows
        octets += frame.octets
        if rows >= BATCH_ROWS or octets >= BATCH_OCTETS:
            yield _joined(pieces)
            pieces, rows, octets = [], 0, 0
    if pieces:
        yield _joined(pieces)


def _joined(pieces: list["pa.RecordBatch"]) -> "pa.RecordBatch":
    import pyarrow as pa

    if len(pieces) == 1:
        return pieces[0]
    (batch,) = pa.Table.from_batches(pieces).combine_chunks().to_batches()
    return batch


def _pieces(slice_: Slice, columns: tuple[str, ...]) -> Iterator[tuple[Frame, "pa.RecordBatch"]]:
    """Yield the frames of a slice, each with its messages within the slice."""
    number, segment, offset = slice_.lo + 1, slice_.segment, slice_.offset
    while number <= slice_.hi:
        data, schema, first = _segment(slice_, segment)
        before = number
        for frame in frames_in(data, segment, offset or first):
            if frame.first > number or number > slice_.hi:
                break
            stop = min(frame.last, slice_.hi)
            batch = read_batch(data, frame, schema).slice(number - frame.first, stop - number + 1)
            yield frame, _selected(batch, columns)
            number = stop + 1
        if number == before:
            raise SpoolUnusable(
                f"message {number} is missing in segment {segment_name(segment)} of the spool {slice_.folder}: the "
                "segment is damaged, or another spool has taken its place"
            )
        segment, offset = number, 0


def _segment(slice_: Slice, segment: int) -> tuple[Octets, "pa.Schema", int]:
    path = Path(slice_.folder, segment_name(segment))
    try:
        data = read_file(path)
    except OSError as error:
        raise SpoolUnusable(
            f"the task on {socket.gethostname()} cannot read {path} ({error.strerror}): option spool must be a folder "
            "that the driver and all executors share"
        ) from error
    try:
        spool_id, schema, first = read_segment_head(data, path.name)
    except SpoolError as error:
        raise SpoolUnusable(str(error)) from error
    if spool_id != slice_.spool_id:
        raise SpoolUnusable(f"{path} on {socket.gethostname()} belongs to another spool than the driver's")
    return data, schema, first


def _selected(batch: "pa.RecordBatch", columns: tuple[str, ...]) -> "pa.RecordBatch":
    import pyarrow as pa

    schema = arrow_schema(columns)
    there = set(batch.schema.names)
    # A segment that an earlier version wrote may lack a column.
    arrays = [
        batch.column(field.name) if field.name in there else pa.nulls(batch.num_rows, field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
