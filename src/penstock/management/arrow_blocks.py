"""Arrow blocks: messages as columns in the layout of Arrow buffers, which readers need not copy.

"PSB1", u32 header length, header (JSON), zeros up to a multiple of 64, buffers each at a multiple of 64

The header names each column with the positions of its buffers, or with the one value of all its rows. docs/blocks.md
describes the format for other readers.
"""

from __future__ import annotations

import json
from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from penstock.content.properties import Properties
from penstock.core.message import Message
from penstock.core.message_format import MessageFormats, UnreadableContent

MAGIC: Final = b"PSB1"
ALIGNMENT: Final = 64
"""Arrow's recommended alignment of buffers, in octets."""
CONTENT_TYPE: Final = "application/vnd.penstock.block"


class _Block:
    """Buffers of a block, and the header that describes them."""

    def __init__(self) -> None:
        self.buffers = BytesWriter()
        self.columns: dict[str, object] = {}

    def append_buffer(self, data: bytes) -> list[int]:
        """Append a buffer; return its start (from the first buffer) and its length."""
        start = len(self.buffers)
        self.buffers.write(data)
        self.buffers.write(bytes(-len(data) % ALIGNMENT))
        return [int(start), len(data)]


def encode_block(queue: str, messages: list[Message], formats: MessageFormats, wall_offset: float) -> bytes:
    """Encode messages of a queue as a block.

    `wall_offset` is added to the broker's monotonic seconds to get seconds since the epoch.
    """
    block = _Block()
    _add_times(block, messages, wall_offset)
    _add_text(block, "exchange", [message.envelope.exchange for message in messages])
    _add_text(block, "routing_key", [message.envelope.routing_key for message in messages])
    _add_properties(block, messages, formats)
    _add_flags(block, "redelivered", [message.redelivered for message in messages])
    block.columns["expiration"] = {"all": None}
    _add_values(block, messages, formats)
    return _assemble(block, queue, messages)


def _assemble(block: _Block, queue: str, messages: list[Message]) -> bytes:
    head: dict[str, object] = {
        "rows": len(messages),
        "queue": queue,
        "first": int(messages[0].sequence) if messages else 0,
        "last": int(messages[len(messages) - 1].sequence) if messages else 0,
        "columns": block.columns,
    }
    # Positions are relative to the body, so the header has a fixed size: it is padded.
    room = (len(json.dumps(head)) + len(block.columns) * 64 + 8 + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    for column in block.columns.values():
        assert isinstance(column, dict)
        for name in ("offsets", "data", "valid"):
            if name in column:
                start, length = column[name]
                column[name] = [start + room, length]
    header = json.dumps(head).encode()
    assert len(header) + 8 <= room, "the header outgrew its room"
    return b"".join(
        (MAGIC, len(header).to_bytes(4, "little"), header, bytes(room - 8 - len(header)), block.buffers.getvalue())
    )


def _add_times(block: _Block, messages: list[Message], wall_offset: float) -> None:
    sequences = BytesWriter()
    times = BytesWriter()
    for message in messages:
        write_i64_le(sequences, message.sequence)
        write_i64_le(times, i64((message.arrived + wall_offset) * 1_000_000))
    block.columns["sequence"] = {"data": block.append_buffer(sequences.getvalue())}
    block.columns["timestamp"] = {"data": block.append_buffer(times.getvalue())}


def _add_values(block: _Block, messages: list[Message], formats: MessageFormats) -> None:
    offsets = BytesWriter()
    data = BytesWriter()
    write_i32_le(offsets, 0)
    for message in messages:
        formats.find(message.content).write_payload(data, message.content)
        write_i32_le(offsets, i32(len(data)))
    block.columns["value"] = {
        "offsets": block.append_buffer(offsets.getvalue()),
        "data": block.append_buffer(data.getvalue()),
    }


def _add_properties(block: _Block, messages: list[Message], formats: MessageFormats) -> None:
    properties = [_properties(message.content, formats) for message in messages]
    if properties.count(_NONE) == len(properties):  # The usual case: one scan in place of ten.
        for name in (*_TEXTS, "priority"):
            block.columns[name] = {"all": None}
        return
    _add_text(block, "message_id", [each.message_id for each in properties])
    _add_text(block, "correlation_id", [each.correlation_id for each in properties])
    _add_text(block, "reply_to", [each.reply_to for each in properties])
    _add_text(block, "content_type", [each.content_type for each in properties])
    _add_priorities(block, [each.priority for each in properties])


_NONE: Final = Properties()
_TEXTS: Final = ("message_id", "correlation_id", "reply_to", "content_type")


def _properties(content: bytes, formats: MessageFormats) -> Properties:
    """Return a message's properties; unreadable ones count as absent, because readers want the body."""
    message_format = formats.find(content)
    if not message_format.has_properties(content):
        return _NONE
    try:
        return message_format.properties(content)
    except UnreadableContent:
        return _NONE


def _add_text(block: _Block, name: str, values: list[str | None]) -> None:
    first = values[0] if values else None
    if values.count(first) == len(values):
        block.columns[name] = {"all": first}
        return
    offsets = BytesWriter()
    data = BytesWriter()
    write_i32_le(offsets, 0)
    for value in values:
        if value is not None:
            data.write(value.encode())
        write_i32_le(offsets, i32(len(data)))
    column: dict[str, object] = {
        "offsets": block.append_buffer(offsets.getvalue()),
        "data": block.append_buffer(data.getvalue()),
    }
    _add_validity(block, column, [value is not None for value in values])
    block.columns[name] = column


def _add_priorities(block: _Block, values: list[int | None]) -> None:
    first = values[0] if values else None
    if values.count(first) == len(values):
        block.columns["priority"] = {"all": first}
        return
    data = BytesWriter()
    for value in values:
        write_i32_le(data, i32(value or 0))
    column: dict[str, object] = {"data": block.append_buffer(data.getvalue())}
    _add_validity(block, column, [value is not None for value in values])
    block.columns["priority"] = column


def _add_flags(block: _Block, name: str, values: list[bool]) -> None:
    first = bool(values) and values[0]
    if values.count(first) == len(values):
        block.columns[name] = {"all": first}
    else:
        block.columns[name] = {"data": block.append_buffer(_bitmap(values))}


def _add_validity(block: _Block, column: dict[str, object], present: list[bool]) -> None:
    if not all(present):
        column["valid"] = block.append_buffer(_bitmap(present))


def _bitmap(values: list[bool]) -> bytes:
    """Return bits in Arrow's order: the lowest bit of an octet first."""
    bitmap = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        if value:
            bitmap[index >> 3] |= 1 << (index & 7)
    return bytes(bitmap)
