"""Arrow blocks: messages as columns in the layout of Arrow buffers, which readers need not copy.

"PSB1", u32 header length, header (JSON), zeros up to a multiple of 64, buffers each at a multiple of 64

The header names each column with the positions of its buffers, or with the one value of all its rows. docs/blocks.md
describes the format for other readers.
"""

from __future__ import annotations

import json
from typing import Final

from librt.strings import BytesWriter, write_i32_le
from mypy_extensions import i32

from penstock.core.message import Message
from penstock.core.message_format import MessageFormats
from penstock.management.block_columns import ALIGNMENT, Buffers, Column, message_columns

MAGIC: Final = b"PSB1"
CONTENT_TYPE: Final = "application/vnd.penstock.block"
_BUFFERS: Final = ("offsets", "data", "valid")
"""Fields of a column that are a buffer: its start and its length."""


def encode_block(
    queue: str, messages: list[Message], formats: MessageFormats, wall_offset: float, names: list[str]
) -> bytes:
    """Encode these columns of messages of a queue as a block.

    `wall_offset` is added to the broker's monotonic seconds to get seconds since the epoch.
    """
    buffers = Buffers()
    columns = message_columns(buffers, names, messages, formats, wall_offset)
    if "value" in names:
        columns["value"] = _values(buffers, messages, formats)
    return _assemble(buffers, columns, queue, messages)


def _assemble(buffers: Buffers, columns: dict[str, Column], queue: str, messages: list[Message]) -> bytes:
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
    return b"".join(
        (MAGIC, len(header).to_bytes(4, "little"), header, bytes(room - 8 - len(header)), buffers.out.getvalue())
    )


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


def _values(buffers: Buffers, messages: list[Message], formats: MessageFormats) -> Column:
    offsets = BytesWriter()
    data = BytesWriter()
    write_i32_le(offsets, 0)
    for message in messages:
        formats.find(message.content).write_payload(data, message.content)
        write_i32_le(offsets, i32(len(data)))
    return {"offsets": buffers.append(offsets.getvalue()), "data": buffers.append(data.getvalue())}
