"""Columns of a block by name, and the buffers of each kind of column in Arrow's layout (docs/blocks.md)."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from penstock.content.header_values import header_octets, headers_to_json
from penstock.content.properties import Properties
from penstock.core.death_headers import deaths_in
from penstock.core.message import Message
from penstock.core.message_format import MessageFormats, UnreadableContent
from penstock.errors import PreconditionFailed

ALIGNMENT: Final = 64
"""Arrow's recommended alignment of buffers, in octets."""

DEFAULT_COLUMNS: Final = (
    "sequence",
    "timestamp",
    "exchange",
    "routing_key",
    "message_id",
    "correlation_id",
    "reply_to",
    "content_type",
    "priority",
    "redelivered",
    "expiration",
    "value",
)
"""Columns of a block for a reader that names none."""
MORE_COLUMNS: Final = (
    "headers",
    "headers_json",
    "type",
    "app_id",
    "user_id",
    "content_encoding",
    "message_timestamp",
    "delivery_mode",
    "deaths",
)
_PLAIN: Final = ("sequence", "timestamp", "exchange", "routing_key", "redelivered", "value")
"""Columns that need no properties."""
_INT64_MAX: Final = (1 << 63) - 1

Column = dict[str, object]


class Buffers:
    """Buffers of a block, one after the other."""

    def __init__(self) -> None:
        self.out = BytesWriter()

    def append(self, data: bytes) -> list[int]:
        """Append a buffer; return its start (from the first buffer) and its length."""
        start = len(self.out)
        self.out.write(data)
        self.out.write(bytes(-len(data) % ALIGNMENT))
        return [int(start), len(data)]


def check_columns(names: list[str]) -> None:
    """Refuse a column that no block has. Raises PreconditionFailed (406)."""
    for name in names:
        if name not in DEFAULT_COLUMNS and name not in MORE_COLUMNS:
            known = ", ".join((*DEFAULT_COLUMNS, *MORE_COLUMNS))
            raise PreconditionFailed(f"'columns' names '{name}', which no block has; known are {known}")


def message_columns(
    buffers: Buffers, names: list[str], messages: list[Message], formats: MessageFormats, wall_offset: float
) -> dict[str, Column]:
    """Encode these columns of messages, but not `value`. `wall_offset` is that of `encode_block`."""
    columns: dict[str, Column] = {}
    for name in names:
        if name == "sequence":
            columns[name] = _sequences(buffers, messages)
        elif name == "timestamp":
            columns[name] = _times(buffers, messages, wall_offset)
        elif name == "exchange":
            columns[name] = texts(buffers, [message.envelope.exchange for message in messages])
        elif name == "routing_key":
            columns[name] = texts(buffers, [message.envelope.routing_key for message in messages])
        elif name == "redelivered":
            columns[name] = _flags(buffers, [message.redelivered for message in messages])
    wanted = [name for name in names if name not in _PLAIN]
    if wanted:
        properties = [_properties(message.content, formats) for message in messages]
        absent = properties.count(_NONE) == len(properties)  # The usual case: one scan in place of ten.
        for name in wanted:
            columns[name] = _absent(name) if absent else _property_column(buffers, name, properties)
    return columns


_NONE: Final = Properties()


def _properties(content: bytes, formats: MessageFormats) -> Properties:
    """Return a message's properties; unreadable ones count as absent, because readers want the body."""
    message_format = formats.find(content)
    if not message_format.has_properties(content):
        return _NONE
    try:
        return message_format.properties(content)
    except UnreadableContent:
        return _NONE


def _absent(name: str) -> Column:
    return {"all": 0} if name == "deaths" else {"all": None}


def _property_column(buffers: Buffers, name: str, properties: list[Properties]) -> Column:
    if name == "headers":
        return _headers(buffers, [each.headers for each in properties])
    if name == "headers_json":
        found = [each.headers for each in properties]
        return texts(buffers, [None if each is None else headers_to_json(each) for each in found])
    if name == "priority":
        return _int32s(buffers, [each.priority for each in properties])
    if name == "delivery_mode":
        return _int32s(buffers, [each.delivery_mode for each in properties])
    if name == "message_timestamp":
        return _int64s(buffers, [_signed(each.timestamp) for each in properties])
    if name == "deaths":
        return _int64s(buffers, [_deaths(each) for each in properties])
    return texts(buffers, [_text_property(each, name) for each in properties])


def _text_property(properties: Properties, name: str) -> str | None:
    if name == "message_id":
        return properties.message_id
    if name == "correlation_id":
        return properties.correlation_id
    if name == "reply_to":
        return properties.reply_to
    if name == "content_type":
        return properties.content_type
    if name == "expiration":
        return properties.expiration
    if name == "type":
        return properties.type
    if name == "app_id":
        return properties.app_id
    if name == "user_id":
        return properties.user_id
    assert name == "content_encoding", name
    return properties.content_encoding


def _signed(number: int | None) -> int | None:
    """Return an unsigned number of 64 bits as a signed one of the same bits."""
    return number - (1 << 64) if number is not None and number > _INT64_MAX else number


def _deaths(properties: Properties) -> int:
    """Return how often a message has died: the sum of the counts in its header x-death."""
    if properties.headers is None:
        return 0
    total = 0
    for entry in deaths_in(properties.headers.get("x-death")):
        count = entry.get("count")
        if isinstance(count, int):
            total += count
    return min(total, _INT64_MAX)


# Kinds of columns


def texts(buffers: Buffers, values: list[str | None]) -> Column:
    """Encode a column of texts."""
    first = values[0] if values else None
    if values.count(first) == len(values):
        return {"all": first}
    return octets(buffers, [None if value is None else value.encode() for value in values])


def octets(buffers: Buffers, values: list[bytes | None]) -> Column:
    """Encode a column of octets: offsets and data."""
    offsets = BytesWriter()
    data = BytesWriter()
    write_i32_le(offsets, 0)
    for value in values:
        if value is not None:
            data.write(value)
        write_i32_le(offsets, i32(len(data)))
    column: Column = {"offsets": buffers.append(offsets.getvalue()), "data": buffers.append(data.getvalue())}
    return _with_validity(buffers, column, [value is not None for value in values])


def _headers(buffers: Buffers, values: list[dict[str, object] | None]) -> Column:
    """Encode headers as lists of key and value, where a value is octets or null."""
    keys: list[str | None] = []
    items: list[bytes | None] = []
    offsets = BytesWriter()
    write_i32_le(offsets, 0)
    for headers in values:
        if headers is not None:
            for name, value in headers.items():
                keys.append(name)
                items.append(header_octets(value))
        write_i32_le(offsets, i32(len(keys)))
    if not keys and values.count(None) == len(values):
        return {"all": None}
    column: Column = {
        "offsets": buffers.append(offsets.getvalue()),
        "items": {
            "rows": len(keys),
            "columns": {"key": texts(buffers, keys), "value": octets(buffers, items)},
        },
    }
    return _with_validity(buffers, column, [value is not None for value in values])


def _sequences(buffers: Buffers, messages: list[Message]) -> Column:
    sequences = BytesWriter()
    for message in messages:
        write_i64_le(sequences, message.sequence)
    return {"data": buffers.append(sequences.getvalue())}


def _times(buffers: Buffers, messages: list[Message], wall_offset: float) -> Column:
    times = BytesWriter()
    for message in messages:
        write_i64_le(times, i64((message.arrived + wall_offset) * 1_000_000))
    return {"data": buffers.append(times.getvalue())}


def _int64s(buffers: Buffers, values: list[int | None]) -> Column:
    first = values[0] if values else None
    if values.count(first) == len(values):
        return {"all": first}
    data = BytesWriter()
    for value in values:
        write_i64_le(data, i64(value or 0))
    return _with_validity(buffers, {"data": buffers.append(data.getvalue())}, [value is not None for value in values])


def _int32s(buffers: Buffers, values: list[int | None]) -> Column:
    first = values[0] if values else None
    if values.count(first) == len(values):
        return {"all": first}
    data = BytesWriter()
    for value in values:
        write_i32_le(data, i32(value or 0))
    return _with_validity(buffers, {"data": buffers.append(data.getvalue())}, [value is not None for value in values])


def _flags(buffers: Buffers, values: list[bool]) -> Column:
    first = bool(values) and values[0]
    if values.count(first) == len(values):
        return {"all": first}
    return {"data": buffers.append(_bitmap(values))}


def _with_validity(buffers: Buffers, column: Column, present: list[bool]) -> Column:
    if not all(present):
        column["valid"] = buffers.append(_bitmap(present))
    return column


def _bitmap(values: list[bool]) -> bytes:
    """Return bits in Arrow's order: the lowest bit of an octet first."""
    bitmap = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        if value:
            bitmap[index >> 3] |= 1 << (index & 7)
    return bytes(bitmap)
