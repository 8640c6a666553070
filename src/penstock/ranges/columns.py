"""Columns of a block by name, and the buffers of each kind of column in Arrow's layout (docs/inside/blocks.md)."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from penstock.content.death_entries import deaths_in
from penstock.content.header_values import header_octets, headers_to_json
from penstock.content.properties import PROPERTY_NAMES, Properties
from penstock.core.message import NEVER_DELIVERED, Message
from penstock.core.message_format import FIRST_PROPERTY, NO_NUMBER, MessageFormat, MessageFormats, UnreadableContent
from penstock.errors import PreconditionFailed

ALIGNMENT: Final = 64
"""Arrow's recommended alignment of buffers, in bytes."""

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
"""Columns of a block for a reader that requests none."""
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
CONTENT: Final = "content"
"""Column of whole messages as they are stored, in the place of `value` and of all properties."""
LEFT_OUT: Final = {
    "headers": "headers",
    "type": "type",
    "app_id": "app_id",
    "user_id": "user_id",
    "content_encoding": "content_encoding",
    "message_timestamp": "timestamp",
}
"""Columns that readers without `columns` may miss, with the attributes of their properties."""
HEADER_NAME: Final = "header"
"""Name of a single header among the properties that cannot be read."""
_PLAIN: Final = ("sequence", "timestamp", "exchange", "routing_key", "redelivered", "value", CONTENT)
"""Columns that need no properties."""
_INT64_MAX: Final = (1 << 63) - 1

BLOCK_TENTHS: Final = 40_000
"""Work of a block in tenths of a unit, in addition to its values: 4 ms."""
ROW_TENTHS: Final = 2
DECODED_TENTHS: Final = 110
"""Work of a row, and more for properties that are decoded as a whole."""
FOUND_TENTHS: Final = 2
"""Work of a row with properties, before one is read; one tenth more for each property that the columns want and the row
has."""
TABLES: Final = ("headers", "headers_json", "deaths")
TABLE_TENTHS: Final = 10
TABLE_OCTETS_A_TENTH: Final = 8
"""Work of these columns in a row with properties."""

Column = dict[str, object]


class Buffers:
    """Buffers of a block, one after the other."""

    def __init__(self) -> None:
        self.out = BytesWriter()

    def length(self) -> int:
        """Return the bytes of all buffers."""
        return len(self.out)

    def append(self, data: bytes) -> list[int]:
        """Append a buffer; return its start (from the first buffer) and its length."""
        start = self.length()
        self.out.write(data)
        self.out.write(bytes(-len(data) % ALIGNMENT))
        return [start, len(data)]


def check_columns(names: list[str]) -> None:
    """Refuse an unknown column, and `value` beside `content`. Raises PreconditionFailed (406)."""
    for name in names:
        if name not in DEFAULT_COLUMNS and name not in MORE_COLUMNS and name != CONTENT:
            known = ", ".join((*DEFAULT_COLUMNS, *MORE_COLUMNS, CONTENT))
            raise PreconditionFailed(f"'columns' names '{name}', which no block has; known are {known}")
    if CONTENT in names and "value" in names:
        raise PreconditionFailed("'columns' names both value and content; a content has the body of its message")


def left_out(messages: list[Message], formats: MessageFormats) -> list[str]:
    """Return the columns beyond the default columns whose property some message has."""
    names: list[str] = []
    for message in messages:
        properties = _decoded(message.content, formats.find(message.content))
        names += [name for name, attribute in LEFT_OUT.items() if getattr(properties, attribute, None) is not None]
    return names


def message_columns(
    buffers: Buffers,
    names: list[str],
    messages: list[Message],
    formats: MessageFormats,
    wall_offset: float,
    unreadable: dict[str, list[int]],
) -> dict[str, Column]:
    """Encode these columns of messages, except `value` and `content`. `wall_offset`: see `encode_block`.

    Properties that cannot be read are null. `unreadable` gets, by the name of the property, the number of messages with
    such properties and the sequence of the first; `HEADER_NAME` stands for a single header that is left out.
    """
    columns: dict[str, Column] = {}
    for name in names:
        if name == "sequence":
            columns[name] = _sequences(buffers, messages)
        elif name == "timestamp":
            columns[name] = _times(buffers, messages, wall_offset)
        elif name == "exchange":
            columns[name] = _addresses(buffers, messages, True)
        elif name == "routing_key":
            columns[name] = _addresses(buffers, messages, False)
        elif name == "redelivered":
            columns[name] = _flags(buffers, messages)
    wanted = [name for name in names if name not in _PLAIN]
    if wanted:
        rows = _Rows(messages, formats, unreadable)
        for name in wanted:
            columns[name] = _property_column(buffers, name, rows)
    return columns


def rows_within(names: list[str], messages: list[Message], formats: MessageFormats) -> tuple[int, int]:
    """Return how many of these messages a block may have for its work, at least one, and that work in units."""
    wanted: i64 = 0
    tables: i64 = 0
    for name in names:
        if name in TABLES:
            tables += 1
        elif name not in _PLAIN:
            wanted |= _bit_of(name)
    tenths: i64 = 0
    rows: i64 = 0
    for message in messages:
        row: i64 = ROW_TENTHS
        if wanted != 0 or tables > 0:
            row += _properties_tenths(message.content, formats, wanted, tables)
        if tenths + row > BLOCK_TENTHS and rows > 0:
            break
        tenths += row
        rows += 1
    return int(rows), int(tenths // 10)


def _properties_tenths(content: bytes, formats: MessageFormats, wanted: i64, tables: i64) -> i64:
    """Return the work of the properties in a row; `wanted` are the properties of the columns, as bits."""
    message_format = formats.find(content)
    present = message_format.present(content)
    if not present:
        return 0
    tenths = FOUND_TENTHS + _count_bits(present & wanted)
    most = _count_bits(wanted)
    if tenths > most:
        tenths = most
    if tables > 0:
        octets = len(content) - message_format.body_bytes(content)
        tenths += tables * (TABLE_TENTHS + (octets if octets > 0 else 0) // TABLE_OCTETS_A_TENTH)
    return tenths if message_format.reads_in_place(content) else tenths + DECODED_TENTHS


def _bit_of(name: str) -> i64:
    """Return the bit of a column's property in `MessageFormat.present`."""
    if name in TABLES:
        name = "headers"
    elif name == "message_timestamp":
        name = "timestamp"
    return FIRST_PROPERTY >> i64(PROPERTY_NAMES.index(name))


def _count_bits(bits: i64) -> i64:
    count: i64 = 0
    while bits != 0:
        bits &= bits - 1
        count += 1
    return count


class _Rows:
    """Properties of messages: in their contents, or decoded."""

    def __init__(self, messages: list[Message], formats: MessageFormats, unreadable: dict[str, list[int]]) -> None:
        """Decode properties that are not read in place. Unreadable properties count as absent, because readers want the
        body.
        """
        self.messages = messages
        self.unreadable = unreadable
        self.tables: list[dict[str, object] | None] | None = None
        """Headers of the messages, once a column has read them."""
        self.formats = formats
        self.decoded: list[Properties | None] = []
        """Properties of the messages that are not read in place, in their order."""
        self.present: i64 = 0
        """Properties that any of the messages may have; see `MessageFormat.present`."""
        for message in messages:
            content = message.content
            message_format = formats.find(content)
            present = message_format.present(content)
            self.present |= present
            if not message_format.reads_in_place(content):
                self.decoded.append(_decoded(content, message_format) if present else None)

    def count_unreadable(self, name: str, message: Message) -> None:
        """Count a message with a property that cannot be read."""
        found = self.unreadable.get(name)
        if found is None:
            self.unreadable[name] = [1, int(message.sequence)]
        else:
            found[0] += 1

    def has(self, name: str) -> bool:
        """Return whether any of the messages may have a value in a column."""
        return self.present & _bit_of(name) != 0


def _decoded(content: bytes, message_format: MessageFormat) -> Properties | None:
    try:
        return message_format.properties(content)
    except UnreadableContent:
        return None


def _property_column(buffers: Buffers, name: str, rows: _Rows) -> Column:
    if not rows.has(name):  # The usual case.
        return {"all": 0} if name == "deaths" else {"all": None}
    if name == "headers":
        return _headers(buffers, _tables(rows))
    if name == "headers_json":
        tables = [None if each is None else headers_to_json(each).encode() for each in _tables(rows)]
        return _texts(buffers, tables)
    if name == "deaths":
        return _integers(buffers, [_deaths(each) for each in _tables(rows)], True)
    if name == "priority" or name == "delivery_mode":
        return _integers(buffers, _numbers(rows, name), False)
    if name == "message_timestamp":
        return _integers(buffers, _numbers(rows, "timestamp"), True)
    return _texts(buffers, _text_values(rows, name))


def _text_values(rows: _Rows, name: str) -> list[bytes | None]:
    index = i64(PROPERTY_NAMES.index(name))
    values: list[bytes | None] = []
    at: i64 = 0
    for message in rows.messages:
        content = message.content
        message_format = rows.formats.find(content)
        if message_format.reads_in_place(content):
            octets = message_format.text_property(content, index)
            values.append(octets)
            if octets is None and message_format.present(content) & (FIRST_PROPERTY >> index) != 0:
                rows.count_unreadable(name, message)
        else:
            text = getattr(rows.decoded[at], name, None)
            values.append(text.encode() if isinstance(text, str) else None)
            at += 1
    return values


def _numbers(rows: _Rows, name: str) -> list[int | None]:
    index = i64(PROPERTY_NAMES.index(name))
    values: list[int | None] = []
    at: i64 = 0
    for message in rows.messages:
        content = message.content
        message_format = rows.formats.find(content)
        if message_format.reads_in_place(content):
            number = message_format.number_property(content, index)
            values.append(None if number == NO_NUMBER else int(number))
        else:
            value = getattr(rows.decoded[at], name, None)
            values.append(_signed(value) if isinstance(value, int) else None)
            at += 1
    return values


def _tables(rows: _Rows) -> list[dict[str, object] | None]:
    """Return the headers of messages."""
    if rows.tables is not None:
        return rows.tables
    bit = FIRST_PROPERTY >> i64(PROPERTY_NAMES.index("headers"))
    tables: list[dict[str, object] | None] = []
    at: i64 = 0
    for message in rows.messages:
        content = message.content
        message_format = rows.formats.find(content)
        if message_format.reads_in_place(content):
            message_format.names_left_out = 0
            table = message_format.header_table(content)
            tables.append(table)
            if message_format.names_left_out > 0:
                rows.count_unreadable(HEADER_NAME, message)
            elif table is None and message_format.present(content) & bit != 0:
                rows.count_unreadable("headers", message)
        else:
            properties = rows.decoded[at]
            tables.append(None if properties is None else properties.headers)
            at += 1
    rows.tables = tables
    return tables


def _signed(number: int) -> int:
    """Return an unsigned number of 64 bits as the signed number of the same bits."""
    return number - (1 << 64) if number > _INT64_MAX else number


def _deaths(headers: dict[str, object] | None) -> int:
    """Return how often a message has died: the sum of the counts in its header x-death."""
    if headers is None:
        return 0
    total = 0
    for entry in deaths_in(headers.get("x-death")):
        count = entry.get("count")
        if isinstance(count, int):
            total += count
    return min(total, _INT64_MAX)


# Kinds of columns


def _addresses(buffers: Buffers, messages: list[Message], exchange: bool) -> Column:
    """Encode the exchanges or the routing keys of messages. Envelopes are shared: most blocks have only one."""
    if not messages:
        return {"all": None}
    first = messages[0].envelope
    for message in messages:
        if message.envelope is not first:
            return _texts(buffers, _address_values(messages, exchange))
    return {"all": first.exchange if exchange else first.routing_key}


def _address_values(messages: list[Message], exchange: bool) -> list[bytes | None]:
    """Return the exchange or the routing key of each message; each envelope is encoded once in a row."""
    last = messages[0].envelope
    text = (last.exchange if exchange else last.routing_key).encode()
    addresses: list[bytes | None] = []
    for message in messages:
        envelope = message.envelope
        if envelope is not last:
            last = envelope
            text = (envelope.exchange if exchange else envelope.routing_key).encode()
        addresses.append(text)
    return addresses


def _texts(buffers: Buffers, values: list[bytes | None]) -> Column:
    """Encode a column of texts in UTF-8. Ids differ at both ends of a block, and need not be counted."""
    first = values[0] if values else None
    if not values or (values[len(values) - 1] == first and values.count(first) == len(values)):
        return {"all": None if first is None else first.decode()}
    return _octets(buffers, values)


def _octets(buffers: Buffers, values: list[bytes | None]) -> Column:
    """Encode a column of bytes: offsets and data."""
    offsets = BytesWriter()
    data = BytesWriter()
    write_i32_le(offsets, 0)
    has_nulls = False
    for value in values:
        if value is None:
            has_nulls = True
        else:
            data.write(value)
        write_i32_le(offsets, i32(len(data)))
    column: Column = {"offsets": buffers.append(offsets.getvalue()), "data": buffers.append(data.getvalue())}
    return _with_validity(buffers, column, [value is not None for value in values]) if has_nulls else column


def _headers(buffers: Buffers, values: list[dict[str, object] | None]) -> Column:
    """Encode headers as lists of key and value, where a value is bytes or null."""
    keys: list[bytes | None] = []
    items: list[bytes | None] = []
    offsets = BytesWriter()
    write_i32_le(offsets, 0)
    for headers in values:
        if headers is not None:
            for name, value in headers.items():
                keys.append(name.encode())
                items.append(header_octets(value))
        write_i32_le(offsets, i32(len(keys)))
    if not keys and values.count(None) == len(values):
        return {"all": None}
    column: Column = {
        "offsets": buffers.append(offsets.getvalue()),
        "items": {
            "rows": len(keys),
            "columns": {"key": _texts(buffers, keys), "value": _octets(buffers, items)},
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


def _integers(buffers: Buffers, values: list[int | None], wide: bool) -> Column:
    """Encode a column of integers of 64 bits (wide) or 32."""
    first = values[0] if values else None
    if values.count(first) == len(values):
        return {"all": first}
    data = BytesWriter()
    for value in values:
        if wide:
            write_i64_le(data, i64(value or 0))
        else:
            write_i32_le(data, i32(value or 0))
    return _with_validity(buffers, {"data": buffers.append(data.getvalue())}, [value is not None for value in values])


def _flags(buffers: Buffers, messages: list[Message]) -> Column:
    """Encode whether messages were delivered before."""
    count: i64 = 0
    for message in messages:
        if message.past != NEVER_DELIVERED:
            count += 1
    if count == 0 or count == len(messages):
        return {"all": count > 0}
    return {"data": buffers.append(_bitmap([message.past != NEVER_DELIVERED for message in messages]))}


def _with_validity(buffers: Buffers, column: Column, present: list[bool]) -> Column:
    if not all(present):
        column["valid"] = buffers.append(_bitmap(present))
    return column


def _bitmap(values: list[bool]) -> bytes:
    """Return bits in Arrow's order: the lowest bit of a byte first."""
    bitmap = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        if value:
            bitmap[index >> 3] |= 1 << (index & 7)
    return bytes(bitmap)
