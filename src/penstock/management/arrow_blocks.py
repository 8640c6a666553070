"""Arrow blocks: messages as columns in the layout of Arrow buffers, which readers need not copy.

"PSB1", u32 header length, header (JSON), zeros up to a multiple of 64, buffers each at a multiple of 64

The header names each column with the positions of its buffers, or with the one value of all its rows. docs/blocks.md
describes the format for other readers.
"""

from __future__ import annotations

import json
from typing import Final

from librt.strings import BytesWriter, write_i32_le
from mypy_extensions import i32, i64

from penstock.core.message import Message
from penstock.core.message_format import MessageFormats
from penstock.management.block_body import BlockBody, BlockValues
from penstock.management.block_columns import ALIGNMENT, Buffers, Column, message_columns

MAGIC: Final = b"PSB1"
CONTENT_TYPE: Final = "application/vnd.penstock.block"
_BUFFERS: Final = ("offsets", "data", "valid")
"""Fields of a column that are a buffer: its start and its length."""


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
