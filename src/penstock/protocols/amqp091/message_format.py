"""The message format of AMQP 0-9-1: a content header frame and body frames, as they came from the publisher.

Rewriting copies unchanged fields byte by byte: a table may have values that no neutral value can express.

This module also has the contents of a block's rows, written from columns without an object for each property, and the
headers CC and BCC (core/routing/route.py).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, u8
from typing_extensions import override

from penstock.content.death_entries import Entry, deaths_in
from penstock.content.message_columns import MessageColumns, NumberColumn, OctetsColumn
from penstock.content.properties import BCC, CC, PROPERTY_NAMES, Properties
from penstock.core.deaths import SUMMARY_HEADERS, DeathRecord, added_headers
from penstock.core.large_bodies import LargeBody
from penstock.core.message_format import (
    NO_NUMBER,
    MessageFormat,
    MessageFormats,
    PropertyOctets,
    RowEncoder,
    StoredContent,
    UnreadableContent,
    keys_in,
    large_data,
)
from penstock.errors import PreconditionFailed
from penstock.flow.level import OVERHEAD
from penstock.protocols.amqp091 import content_frames
from penstock.protocols.amqp091.content_frames import (
    FRAME_PAYLOAD_MAX,
    header_end,
    header_payload,
    payload_of,
    properties_in,
    properties_of,
)
from penstock.protocols.amqp091.stored_content import check_stored
from penstock.wire.amqp091.codec import CodecError, encode_table
from penstock.wire.amqp091.content_header import (
    EXPIRATION,
    FIXED_OCTETS,
    FLAGS_AT,
    HEADERS,
    HEADERS_FLAG,
    SIZES,
    TABLE,
    encode_header,
    flags_of,
    property_at,
    skip_properties,
)
from penstock.wire.amqp091.fields import (
    FieldReader,
    TolerantFieldReader,
    write_longstr,
    write_shortstr,
    write_unsigned,
    write_value,
)
from penstock.wire.amqp091.spec import FRAME_END, FRAME_HEADER, FRAME_OVERHEAD


class HeaderRewriter:
    """Content header of one message, split into properties. Raises CodecError if its headers cannot be read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._payload = header_payload(content)
        self.properties = properties_in(self._payload)
        """Bytes of each property in the order of their flags; empty if absent."""
        self.headers = entries_of(self.properties[HEADERS])
        """Bytes of each headers entry by name. Removed entries are omitted."""

    def with_headers(self, added: dict[str, object]) -> bytes | None:
        """Return the message with additional headers; None if its content header would not fit into a frame."""
        content = self.written(added)
        return content if header_end(content) - FRAME_OVERHEAD <= FRAME_PAYLOAD_MAX else None

    def written(self, added: dict[str, object]) -> bytes:
        """Return the message with all changes and additional headers."""
        table = b"".join([octets for name, octets in self.headers.items() if name not in added]) + _encoded(added)
        self.properties[HEADERS] = len(table).to_bytes(4, "big") + table
        payload = payload_of(self._payload, self.properties)
        return (
            self.content[:3] + len(payload).to_bytes(4, "big") + payload + self.content[header_end(self.content) - 1 :]
        )


def entries_of(table: bytes) -> dict[str, bytes]:
    """Return the bytes of each entry of a headers table by name, its size first. Raises CodecError."""
    reader = FieldReader(table, min(4, len(table)))
    entries: dict[str, bytes] = {}
    while reader.remaining():
        start = reader.pos
        name = reader.shortstr()
        reader.value(1)
        entries[name] = table[start : reader.pos]
    return entries


def _encoded(entries: dict[str, object]) -> bytes:
    out = bytearray()
    for name, value in entries.items():
        write_shortstr(out, name)
        _write(out, value, 1)
    return bytes(out)


def _write(out: bytearray, value: object, depth: int) -> None:
    """Write a value with RabbitMQ's types: integers have 64 bits here."""
    if isinstance(value, int) and not isinstance(value, bool):
        out += b"l" + value.to_bytes(8, "big", signed=True)
    elif isinstance(value, str):
        out += b"S"
        write_longstr(out, value)
    elif isinstance(value, datetime):
        out += b"T"
        write_unsigned(out, int(value.timestamp()), 8)
    elif isinstance(value, list):
        octets = bytearray()
        for each in value:
            _write(octets, each, depth + 1)
        out += b"A"
        write_longstr(out, octets)
    elif isinstance(value, dict):
        out += b"F"
        write_longstr(out, _encoded(value))
    else:
        write_value(out, value, depth)


_BEFORE_SIZE: Final = b"\x02\x00\x00\x00\x00\x00\x00\x00\x3c\x00\x00"
"""A header frame of channel 0 up to the size of the body; its own size is filled in."""
_BODY: Final = b"\x03\x00\x00"
_END: Final = b"\xce"
COPIED_OCTETS: Final = 400
"""Longest body that is written after its header; a longer body is joined with its header, which saves one copy."""


class _Property:
    """One property that rows have."""

    __slots__ = ("flag", "kind", "texts", "numbers")

    def __init__(self, flag: int, kind: int, texts: OctetsColumn | None, numbers: NumberColumn | None) -> None:
        self.flag: i64 = flag
        self.kind: i64 = kind
        self.texts = texts
        self.numbers = numbers


class Amqp091RowEncoder(RowEncoder):
    """Encoder of the rows of one block."""

    def __init__(self, columns: MessageColumns) -> None:
        super().__init__()
        self._columns = columns
        self._out = BytesWriter()
        self._properties: list[_Property] = []
        for index, name in enumerate(PROPERTY_NAMES):
            kind, texts, numbers = SIZES[index], columns.texts.get(name), _numbers(columns, name)
            if texts is not None or numbers is not None or (kind == TABLE and columns.has_headers()):
                self._properties.append(_Property(0x8000 >> index, kind, texts, numbers))

    @override
    def encode(self, row: i64) -> bytes:
        body = self._columns.body(row)
        size: i64 = len(body)
        out = self._out
        out.truncate(0)
        out.write(_BEFORE_SIZE)
        write_i64_be(out, size)
        out.write(b"\x00\x00")
        flags = self._write_properties(row)
        octets: i64 = len(out) - FLAGS_AT
        if octets + FIXED_OCTETS > FRAME_PAYLOAD_MAX:
            raise PreconditionFailed(
                f"row {int(row)} has properties of {int(octets):,} bytes, but a frame holds {FRAME_PAYLOAD_MAX:,}"
            )
        out[FLAGS_AT] = u8(flags >> 8)
        out[FLAGS_AT + 1] = u8(flags & 0xFF)
        whole = octets + FIXED_OCTETS
        out[4] = u8(whole >> 16)
        out[5] = u8((whole >> 8) & 0xFF)
        out[6] = u8(whole & 0xFF)
        out.append(FRAME_END)
        self.charge = octets + size + OVERHEAD
        if COPIED_OCTETS < size <= FRAME_PAYLOAD_MAX:
            out.write(_BODY)
            write_i32_be(out, i32(size))
            return b"".join((out.getvalue(), body, _END))
        if 0 < size <= FRAME_PAYLOAD_MAX:
            out.write(_BODY)
            write_i32_be(out, i32(size))
            out.write(body)
            out.append(FRAME_END)
        elif size > 0:
            self._write_long(body, size)
        return out.getvalue()

    def _write_long(self, body: bytes, size: i64) -> None:
        out = self._out
        start: i64 = 0
        while start < size:
            part = size - start if size - start < FRAME_PAYLOAD_MAX else i64(FRAME_PAYLOAD_MAX)
            out.write(_BODY)
            write_i32_be(out, i32(part))
            out.write(body[start : start + part])
            out.append(FRAME_END)
            start += part

    def _write_properties(self, row: i64) -> i64:
        """Write the properties of a row; return their flags."""
        out = self._out
        flags: i64 = 0
        for each in self._properties:
            texts = each.texts
            numbers = each.numbers
            if texts is not None:
                text = texts.short(row)
                if text is not None:
                    flags |= each.flag
                    out.append(len(text))
                    out.write(text)
            elif numbers is not None:
                number = numbers.number(row)
                if number is not None:
                    flags |= each.flag
                    if each.kind == 1:
                        out.append(number)
                    else:
                        write_i64_be(out, number)
            else:
                headers = self._columns.headers(row)
                if headers is not None:
                    flags |= each.flag
                    out.write(_table(headers, row))
        return flags


def _numbers(columns: MessageColumns, name: str) -> NumberColumn | None:
    if name == "delivery_mode":
        return columns.delivery_mode
    if name == "priority":
        return columns.priority
    return columns.timestamp if name == "timestamp" else None


def _table(headers: dict[str, object], row: i64) -> bytes:
    try:
        return encode_table(headers)
    except CodecError as error:
        raise PreconditionFailed(f"row {int(row)} has headers that cannot be sent: {error.reason}") from None


_BODY_SIZE_AT: Final = 11
"""Position of the body size in a content (sections 2.3.5.2 and 4.2.6.1)."""


_OFFSET_NAME: Final = b"\x0fx-stream-offsetl"
"""Name of the header with the offset of a message of a stream, and the type of its value."""
_OFFSET_OCTETS: Final = 25
"""Bytes of that header."""


class Amqp091Format(MessageFormat):
    """The format whose contents begin with a content header frame."""

    def __init__(self) -> None:
        super().__init__("AMQP 0-9-1", bytes([FRAME_HEADER]))

    @override
    def properties(self, content: bytes) -> Properties:
        try:
            return content_frames.properties_of(content)
        except CodecError as error:
            raise UnreadableContent(error.reason) from None

    @override
    def check_stored(self, content: bytes, user: bytes, into: StoredContent) -> None:
        check_stored(content, user, into)

    @override
    def whole(self, head: bytes, body: LargeBody) -> bytes:
        return content_frames.joined(head[FLAGS_AT : header_end(head) - 1], large_data(body))

    @override
    def row_encoder(self, columns: MessageColumns) -> RowEncoder:
        return Amqp091RowEncoder(columns)

    @override
    def present(self, content: bytes) -> i64:
        return flags_of(content)

    @override
    def reads_in_place(self, content: bytes) -> bool:
        return True

    @override
    def text_property(self, content: bytes, index: i64) -> bytes | None:
        at = property_at(content, index)
        if at == 0:
            return None
        end = at + 1 + i64(content[at])
        if end >= content_frames.header_end(content):
            return None
        text = content[at + 1 : end]
        return text if text.isascii() or _is_utf8(text) else None

    @override
    def number_property(self, content: bytes, index: i64) -> i64:
        at = property_at(content, index)
        if at == 0:
            return NO_NUMBER
        octets: i64 = SIZES[index]
        if at + octets >= content_frames.header_end(content):
            return NO_NUMBER
        if octets == 1:
            return i64(content[at])
        return read_i64_be(content, at)

    @override
    def header_table(self, content: bytes) -> dict[str, object] | None:
        at = property_at(content, HEADERS)
        if at == 0:
            return None
        try:
            return FieldReader(content, int(at)).table()
        except CodecError:
            return self._readable_headers(content, int(at))

    def _readable_headers(self, content: bytes, at: int) -> dict[str, object] | None:
        """Return the headers whose names are UTF-8; None if the table is malformed otherwise."""
        reader = TolerantFieldReader(content, at)
        try:
            table = reader.table()
        except CodecError:
            return None
        self.names_left_out += reader.left_out
        return table

    @override
    def body(self, content: bytes) -> bytes:
        return content_frames.body_of(content)

    @override
    def payload_at(self, content: bytes) -> i64:
        return content_frames.payload_at(content)

    def body_bytes(self, content: bytes) -> i64:
        """See `MessageFormat.body_bytes`; the size is in the header, even while the body is incomplete."""
        return read_i64_be(content, _BODY_SIZE_AT)

    def charge(self, content: bytes) -> i64:
        """See `MessageFormat.charge`: flags and properties as encoded, and the body without its frames."""
        return content_frames.header_end(content) - FRAME_OVERHEAD - FIXED_OCTETS + self.body_bytes(content)

    @override
    def encode(self, properties: Properties, body: bytes) -> bytes:
        try:
            content = content_frames.make_content(properties, body)
        except CodecError as error:
            raise PreconditionFailed(f"the properties cannot be sent: {error.reason}") from None
        octets = content_frames.header_end(content) - FRAME_OVERHEAD
        if octets > content_frames.FRAME_PAYLOAD_MAX:
            raise PreconditionFailed(
                f"the properties cannot be sent: they have {octets:,} bytes, but a frame holds "
                f"{content_frames.FRAME_PAYLOAD_MAX:,}"
            )
        return content

    @override
    def split(self, content: bytes) -> tuple[bytes, bytes, PropertyOctets | None] | None:
        end = content_frames.header_end(content)
        return content[FLAGS_AT : end - 1], content_frames.body_of(content), None

    @override
    def encode_head(self, properties: Properties | PropertyOctets) -> bytes | None:
        if isinstance(properties, list):
            return payload_of(b"", properties)
        try:
            head = encode_header(0, properties)[FIXED_OCTETS:]
        except CodecError as error:
            raise PreconditionFailed(f"the properties cannot be sent: {error.reason}") from None
        return head if len(head) + FIXED_OCTETS <= content_frames.FRAME_PAYLOAD_MAX else None

    @override
    def join(self, head: bytes, body: bytes) -> bytes:
        return content_frames.joined(head, body)

    @override
    def with_headers(self, content: bytes, added: dict[str, object]) -> bytes | None:
        try:
            return HeaderRewriter(content).with_headers(added)
        except CodecError:
            return None

    @override
    def with_offset(self, content: bytes, offset: i64) -> bytes | None:
        flags = flags_of(content)
        start = skip_properties(content, FLAGS_AT + 2, flags, 0, HEADERS)
        end = skip_properties(content, start, flags, HEADERS, HEADERS + 1)
        if _OFFSET_NAME[:-1] in content[start:end]:
            return self.with_headers(content, {"x-stream-offset": int(offset)})
        size = header_end(content) - FRAME_OVERHEAD + _OFFSET_OCTETS + (0 if end > start else 4)
        if size > FRAME_PAYLOAD_MAX:
            return None
        out = BytesWriter()
        out.write(content[:3])
        write_i32_be(out, i32(size))
        out.write(content[7:FLAGS_AT])
        out.append(int((flags | HEADERS_FLAG) >> 8))
        out.append(int(flags & 0xFF))
        out.write(content[FLAGS_AT + 2 : start])
        table = end - start - 4 if end > start else 0
        write_i32_be(out, i32(table + _OFFSET_OCTETS))
        if end > start:
            out.write(content[start + 4 : end])
        out.write(_OFFSET_NAME)
        write_i64_be(out, offset)
        out.write(content[end:])
        return out.getvalue()

    @override
    def with_death(self, content: bytes, death: DeathRecord) -> bytes | None:
        try:
            message = HeaderRewriter(content)
            deaths = deaths_in(_x_death(message))
        except CodecError:
            return None
        octets = message.properties[EXPIRATION]
        expiration = octets[1:].decode(errors="replace") if octets else None
        died_before = "x-first-death-reason" in message.headers
        added = added_headers(deaths, death, expiration, copies_of(content), died_before)
        if death.rerouted:
            message.headers.pop(CC, None)
        message.properties[EXPIRATION] = b""
        return message.with_headers(added)

    @override
    def without_deaths(self, content: bytes) -> bytes | None:
        try:
            message = HeaderRewriter(content)
        except CodecError:
            return None
        for name in ("x-death", *SUMMARY_HEADERS):
            message.headers.pop(name, None)
        return message.with_headers({})

    @override
    def death_entries(self, content: bytes) -> list[Entry]:
        try:
            return deaths_in(_x_death(HeaderRewriter(content)))
        except CodecError:
            return []

    @override
    def copies(self, content: bytes) -> list[str]:
        return copies_of(content)


def as_frames(content: bytes, formats: MessageFormats) -> bytes:
    """Return a content of any format as header and body frames."""
    if content and content[0] == FRAME_HEADER:
        return content
    return formats.convert(content, formats.by_octet(FRAME_HEADER))


def _is_utf8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _x_death(message: HeaderRewriter) -> object:
    """Return the value of the header x-death; None without one. Raises CodecError."""
    octets = message.headers.get("x-death")
    if octets is None:
        return None
    reader = FieldReader(octets)
    reader.shortstr()
    return reader.value(1)


_MARK: Final = b"CC"


def may_have_cc(data: bytes, start: i64, end: i64) -> bool:
    """Return whether these bytes of a property list may hold a header CC or BCC (a name follows its length).

    Messages with headers but without CC and BCC pay only for this test. False positives are possible, false negatives
    are not.
    """
    if _MARK not in data[start:end]:  # Compiled, this costs a fifth of a search.
        return False
    at: i64 = data.find(_MARK, start, end)
    while at >= 0:
        before = data[at - 1]
        if before == 2 or (before == 66 and data[at - 2] == 3):  # 66 is B
            return True
        at = data.find(_MARK, at + 1, end)
    return False


def copies_of(content: bytes) -> list[str]:
    """Return the routing keys in the CC header of an accepted message; empty if there are none."""
    if not may_have_cc(content, FLAGS_AT, header_end(content)):
        return []
    try:
        value = (properties_of(content).headers or {}).get(CC)
    except CodecError:
        return []
    return keys_in(value)


def without_blind_copies(content: bytes) -> bytes:
    """Return a message without its BCC header, otherwise unchanged. Raises CodecError."""
    message = HeaderRewriter(content)
    message.headers.pop(BCC, None)
    return message.written({})
