"""Encoder of blocks that a sink publishes: the unchanged buffers of record batches (docs/inside/blocks.md).

No row becomes a Python object. A column of a batch is usually a slice of longer buffers. Arrow's own functions move
offsets to begin at 0, and bitmaps to begin at a whole byte.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"PSB1"
ALIGNMENT = 64
"""Alignment of buffers, in bytes."""
_PREFIX = 8
_ROOM_OF_NUMBERS = 64
"""Generous bound of the bytes by which the positions of a column can grow in the header."""


class _Buffers:
    """Buffers of a block, one after the other."""

    def __init__(self) -> None:
        self.parts: list[object] = []
        self.size = 0

    def append(self, data: "pa.Buffer | None") -> list[int]:
        """Append a buffer; return its start, counted from the first buffer, and its length."""
        length = 0 if data is None else data.size
        place = [self.size, length]
        if data is not None and length:
            padding = -length % ALIGNMENT
            self.parts += [data, bytes(padding)]
            self.size += length + padding
        return place


def encode_block(
    batch: "pa.RecordBatch", constants: Mapping[str, object], fields: Mapping[str, object] | None = None
) -> bytes:
    """Encode a batch of `rows.message_columns`.

    `constants` are columns with one value for all rows, `fields` further fields of the header.
    """
    buffers = _Buffers()
    columns: dict[str, object] = {name: {"all": value} for name, value in constants.items()}
    for name in batch.schema.names:
        columns[name] = _column(buffers, batch.column(name))
    head = {"rows": batch.num_rows, **(fields or {}), "columns": columns}
    # Positions count from the first byte of the block, so the header's room is fixed before they are known.
    room = len(json.dumps(head)) + _PREFIX + _ROOM_OF_NUMBERS * (len(columns) + 2)
    room += -room % ALIGNMENT
    _move(columns, room)
    header = json.dumps(head).encode()
    assert len(header) + _PREFIX <= room, "the header outgrew its room"
    start = MAGIC + len(header).to_bytes(4, "little") + header
    return b"".join([start, bytes(room - len(start)), *buffers.parts])  # type: ignore[list-item]  # they are buffers


def size_of(batch: "pa.RecordBatch") -> int:
    """Return the bytes of the columns of a batch, without bytes outside of its slice."""
    return sum(column.nbytes for column in batch.columns)


def _move(columns: Mapping[str, object], by: int) -> None:
    """Count the positions of buffers from the first byte of the block."""
    for column in columns.values():
        assert isinstance(column, dict)
        for kind in ("offsets", "data", "valid"):
            if kind in column:
                column[kind][0] += by
        if "items" in column:
            _move(column["items"]["columns"], by)


def _column(buffers: _Buffers, array: "pa.Array") -> dict[str, object]:
    import pyarrow as pa

    kind = array.type
    if array.null_count == len(array):
        return {"all": None}
    column: dict[str, object]
    if pa.types.is_list(kind):
        offsets, first, end = _offsets(array)
        items = array.values.slice(first, end - first)
        key, value = items.flatten()
        columns = {"key": _column(buffers, key), "value": _column(buffers, value)}
        column = {"offsets": buffers.append(offsets), "items": {"rows": end - first, "columns": columns}}
    elif pa.types.is_integer(kind):
        width = kind.bit_width // 8
        column = {"data": buffers.append(array.buffers()[1].slice(array.offset * width, len(array) * width))}
    else:
        offsets, first, end = _offsets(array)
        data = array.buffers()[2]
        column = {
            "offsets": buffers.append(offsets),
            "data": buffers.append(None if data is None else data.slice(first, end - first)),
        }
    if array.null_count:
        column["valid"] = buffers.append(_bitmap(array))
    return column


def _offsets(array: "pa.Array") -> "tuple[pa.Buffer, int, int]":
    """Return the offsets of a column from 0, and the begin and end of its items in the whole buffer."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count = len(array) + 1
    part = array.buffers()[1].slice(array.offset * 4, count * 4)
    offsets = pa.Array.from_buffers(pa.int32(), count, [None, part])
    first, end = offsets[0].as_py(), offsets[count - 1].as_py()
    if first:
        part = pc.subtract(offsets, pa.scalar(first, pa.int32())).buffers()[1]
    return part, first, end


def _bitmap(array: "pa.Array") -> "pa.Buffer":
    """Return the bits of the rows that are not null, from the first bit of a byte."""
    import pyarrow.compute as pc

    octets = -(-len(array) // 8)
    if array.offset % 8 == 0:
        return array.buffers()[0].slice(array.offset // 8, octets)
    return pc.is_valid(array).buffers()[1].slice(0, octets)
