"""Arrow blocks: messages as columns in the layout of Arrow buffers, which readers need not copy.

"PSB1", u32 header length, header (JSON), zeros up to a multiple of 64, buffers each at a multiple of 64

The header names each column with the positions of its buffers, or with the one value of all its rows. docs/blocks.md
describes the format for other readers.

The body of a block is its columns, which are encoded, and the bodies of messages, which are written as the peer reads.
A body goes from its message into the output of the connection and is never joined with others before. So a block of any
size takes little memory and a small part of each turn. The messages stay as long as the block refers to their contents,
also when they are settled meanwhile.
"""

from __future__ import annotations

import json
from typing import Final

from librt.strings import BytesWriter, read_i32_le, write_i32_le
from mypy_extensions import i32, i64
from typing_extensions import override

from penstock.core.large_bodies import LargeBodies, LargeBody, LargeReader, PieceListener, Span
from penstock.core.message import Message
from penstock.core.message_format import MessageFormats
from penstock.ranges.columns import ALIGNMENT, Buffers, Column, message_columns

MAGIC: Final = b"PSB1"
CONTENT_TYPE: Final = "application/vnd.penstock.block"
_BUFFERS: Final = ("offsets", "data", "valid")
"""Fields of a column that are a buffer: its start and its length."""
SMALL_PART: Final = 448
"""Octets that are copied at once: Python has room for a piece of so many without asking the C library."""
LARGE_VALUE: Final = 8192
"""Octets from which a piece of any size costs less than many small ones."""


def encode_block(
    queue: str, messages: list[Message], formats: MessageFormats, wall_offset: float, names: list[str]
) -> BlockBody:
    """Encode these columns of messages of a queue as a block; the values are those of the messages.

    `wall_offset` is added to the broker's monotonic seconds to get seconds since the epoch.
    """
    buffers = Buffers()
    columns = message_columns(buffers, names, messages, formats, wall_offset)
    values = BlockValues()
    if "value" in names:
        values = _values(messages, formats)
        offsets = buffers.append(values.offsets)
        columns["value"] = {"offsets": offsets, "data": [buffers.length(), int(values.octets())]}
    return _assemble(buffers, columns, queue, messages, values)


def _assemble(
    buffers: Buffers, columns: dict[str, Column], queue: str, messages: list[Message], values: BlockValues
) -> BlockBody:
    head: dict[str, object] = {
        "rows": len(messages),
        "queue": queue,
        "first": int(messages[0].sequence) if messages else 0,
        "last": int(messages[len(messages) - 1].sequence) if messages else 0,
        "columns": columns,
    }
    # Positions are relative to the block, so the header has a fixed size: it is padded.
    room = len(json.dumps(head)) + 12 * _count_buffers(columns) + 8
    room += -room % ALIGNMENT
    _move_buffers(columns, room)
    header = json.dumps(head).encode()
    assert len(header) + 8 <= room, "the header outgrew its room"
    before = b"".join(
        (MAGIC, len(header).to_bytes(4, "little"), header, bytes(room - 8 - len(header)), buffers.out.getvalue())
    )
    return BlockBody(before, values, bytes(-int(values.octets()) % ALIGNMENT))


def _count_buffers(columns: dict[str, Column]) -> int:
    found = 0
    for column in columns.values():
        found += sum(name in column for name in _BUFFERS)
        items = column.get("items")
        if isinstance(items, dict):
            found += _count_buffers(items["columns"])
    return found


def _move_buffers(columns: dict[str, Column], octets: int) -> None:
    """Add octets to the start of each buffer."""
    for column in columns.values():
        for name in _BUFFERS:
            place = column.get(name)
            if isinstance(place, list):
                column[name] = [place[0] + octets, place[1]]
        items = column.get("items")
        if isinstance(items, dict):
            _move_buffers(items["columns"], octets)


def _values(messages: list[Message], formats: MessageFormats) -> BlockValues:
    """Find the bodies of messages, and their offsets."""
    values = BlockValues()
    contents = values.contents
    starts = values.starts
    offsets = BytesWriter()
    end: i64 = 0
    write_i32_le(offsets, 0)
    for message in messages:
        content = message.content
        message_format = formats.find(content)
        start = message_format.payload_at(content)
        if start >= 0:
            end += message_format.body_bytes(content)
        else:
            content = message_format.payload(content)
            start = 0
            end += len(content)
        contents.append(content)
        starts.append(int(start))
        write_i32_le(offsets, i32(end))
    values.offsets = offsets.getvalue()
    return values


class BlockValues:
    """The values of a block: bodies of messages where they are."""

    __slots__ = ("contents", "starts", "offsets")

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        """Contents, or bodies that had to be joined."""
        self.starts: list[int] = []
        """Position of the body in each."""
        self.offsets: bytes = b"\0\0\0\0"
        """Arrow's offsets of the values: one more than there are."""

    def octets(self) -> i64:
        """Return the octets of all values."""
        return i64(read_i32_le(self.offsets, len(self.offsets) - 4))


class BlockBody(LargeBody):
    """The octets of a block."""

    __slots__ = ("head", "values", "end")

    def __init__(self, head: bytes, values: BlockValues, end: bytes) -> None:
        super().__init__(0, None)
        self.head = head
        """All before the values."""
        self.values = values
        self.end = end
        """All after them."""
        self.octets = len(head) + values.octets() + len(end)
        self.spans = [Span(0, self.octets)]

    @override
    def open(self, bodies: LargeBodies, spans: list[Span], listener: PieceListener) -> LargeReader:
        """Return a reader of the whole block; it has no other spans."""
        return _BlockReader(bodies, self, spans, listener)


class _BlockReader(LargeReader):
    """A reader that always has the next octets at hand."""

    __slots__ = ("_block", "_count", "_part", "_at")

    def __init__(self, bodies: LargeBodies, body: BlockBody, spans: list[Span], listener: PieceListener) -> None:
        super().__init__(bodies, body, spans, listener)
        self._block = body
        self._count: i64 = 0
        self._part: i64 = -1
        """Index of a value; -1 is the head, and the one after the last value is the end."""
        self._at: i64 = 0
        """Octets of this part that are written."""

    @override
    def ready(self, most: i64) -> i64:
        self._count = most if most < self.left else self.left
        return self._count

    @override
    def take(self, most: i64) -> bytes:
        out = BytesWriter()
        self.ready(most)
        self.write(out)
        return out.getvalue()

    @override
    def write(self, out: BytesWriter) -> None:
        values = self._block.values
        rows: i64 = len(values.starts)
        part = self._part
        at = self._at
        count = self._count
        self.left -= count
        while count > 0:
            if 0 <= part < rows:
                first = i64(read_i32_le(values.offsets, part * 4))
                left = i64(read_i32_le(values.offsets, part * 4 + 4)) - first - at
                start = values.starts[part] + at
                octets = values.contents[part]
            else:
                octets = self._block.head if part < 0 else self._block.end
                left = len(octets) - at
                start = at
            done = left > count
            if done:
                left = count
            _write_part(out, octets, start, left)
            count -= left
            at += left
            if not done:
                part += 1
                at = 0
        self._part = part
        self._at = at


def _write_part(out: BytesWriter, octets: bytes, start: i64, count: i64) -> None:
    """Write a part of octets."""
    if count < LARGE_VALUE:
        while count > SMALL_PART:
            out.write(octets[start : start + SMALL_PART])
            start += SMALL_PART
            count -= SMALL_PART
    out.write(octets[start : start + count])
