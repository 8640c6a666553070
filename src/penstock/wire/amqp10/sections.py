"""Sections of a message in place (section 3.2): validation when it arrives, and the position of each.

A message is walked once, and no objects are built. Order: header, delivery-annotations, message-annotations,
properties, application-properties, the body, footer; all except the body at most once, and each may be absent. A body
is several data sections, several amqp-sequence sections, or one amqp-value. A message without a body is accepted,
because some clients send such messages, but a message without any section is malformed.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64

from penstock.wire.amqp10 import values
from penstock.wire.amqp10.composite import decode_composite, write_list
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.spec import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SECTIONS,
)
from penstock.wire.amqp10.value_reader import ValueReader
from penstock.wire.amqp10.value_walk import (
    ANNOTATION_KEYS,
    BINARY8,
    BINARY32,
    LIST0,
    LIST8,
    LIST32,
    NULL,
    SMALL_ULONG,
    STRING_KEYS,
    TRUE,
    UNFIT,
    codes_of,
    entries_of,
    map_end,
    map_octets,
    u32,
    value_end,
)
from penstock.wire.amqp10.value_writer import encode_value, write_plain
from penstock.wire.amqp10.values import BOOLEAN, UBYTE, UINT, CodecError, Symbol

_ID: Final = codes_of(values.ULONG, values.UUID, values.BINARY, values.STRING)
_STRING: Final = codes_of(values.STRING)
_SYMBOL: Final = codes_of(values.SYMBOL)
_TIMESTAMP: Final = codes_of(values.TIMESTAMP)
_PROPERTY_CODES: Final[list[bytes]] = [
    *(_ID, codes_of(values.BINARY), _STRING, _STRING, _STRING, _ID, _SYMBOL, _SYMBOL, _TIMESTAMP, _TIMESTAMP),
    *(_STRING, codes_of(values.UINT), _STRING),
]
"""Format codes that each property may have."""

MESSAGE_ID: Final = 0
USER_ID: Final = 1
TO: Final = 2
SUBJECT: Final = 3
REPLY_TO: Final = 4
CORRELATION_ID: Final = 5
CONTENT_TYPE: Final = 6
CONTENT_ENCODING: Final = 7
ABSOLUTE_EXPIRY_TIME: Final = 8
CREATION_TIME: Final = 9
GROUP_ID: Final = 10
GROUP_SEQUENCE: Final = 11
REPLY_TO_GROUP_ID: Final = 12
"""Indexes of properties (section 3.2.4)."""


HEADER_SKIP: Final = 7
"""Bytes of a header with `durable` alone, in its shortest form."""
_DURABLE_HEADER: Final = 0x005370C0020141
_TRANSIENT_HEADER: Final = 0x005370C0020142
_DATA8: Final = 0x005375A0
_DATA32: Final = 0x005375B0
"""First bytes of a data section, up to its size in one byte or in four."""


class Sections:
    """Positions of the sections of the last message that was walked, and the fields of its header.

    The position of a section is its value's; `ABSENT` without a section. The descriptor lies before the value.
    """

    __slots__ = (
        "durable",
        "priority",
        "ttl",
        "first_acquirer",
        "delivery_count",
        "header_end",
        "annotated_at",
        "delivery_annotations",
        "message_annotations",
        "annotations_end",
        "properties",
        "application_properties",
        "body_at",
        "body_code",
        "body_end",
        "footer",
        "end",
        "_cursor",
        "_is_alone",
    )

    def __init__(self) -> None:
        self._cursor = FieldCursor()
        self._is_alone: bool = False
        """True if the last message was one data section."""
        self.durable: i64 = ABSENT
        """Fields of the header: booleans as 0 and 1; `ABSENT` if the field, or the header, is absent."""
        self.priority: i64 = ABSENT
        self.ttl: i64 = ABSENT
        self.first_acquirer: i64 = ABSENT
        self.delivery_count: i64 = ABSENT
        self.header_end: i64 = 0
        """End of the header section; the start of the message without one."""
        self.annotated_at: i64 = 0
        """Position after header and delivery-annotations: stored and forwarded bytes begin here."""
        self.delivery_annotations: i64 = ABSENT
        self.message_annotations: i64 = ABSENT
        self.annotations_end: i64 = 0
        """End of the message annotations; without them, `annotated_at`."""
        self.properties: i64 = ABSENT
        self.application_properties: i64 = ABSENT
        self.body_at: i64 = 0
        """Position of the descriptor of the body's first section; without a body, the position of the footer or the
        end.
        """
        self.body_code: i64 = ABSENT
        """Descriptor of the body's sections."""
        self.body_end: i64 = 0
        self.footer: i64 = ABSENT
        self.end: i64 = 0

    def _clear(self, pos: i64, end: i64) -> None:
        self._is_alone = False
        self.durable = ABSENT
        self.priority = ABSENT
        self.ttl = ABSENT
        self.first_acquirer = ABSENT
        self.delivery_count = ABSENT
        self.header_end = pos
        self.annotated_at = pos
        self.delivery_annotations = ABSENT
        self.message_annotations = ABSENT
        self.annotations_end = pos
        self.properties = ABSENT
        self.application_properties = ABSENT
        self.body_at = end
        self.body_code = ABSENT
        self.body_end = end
        self.footer = ABSENT
        self.end = end

    def walk(self, data: bytes, pos: i64, end: i64) -> None:
        """Walk over the sections from `pos` to `end`. Raises CodecError unless the bytes are exactly one message."""
        if pos >= end:
            raise CodecError("a message without a section")
        if data_alone(data, pos, end) > 0:
            if not self._is_alone or self.body_at != pos:
                self._set_alone(pos, end)
            self.body_end = end
            self.end = end
            return
        self._clear(pos, end)
        cursor = self._cursor
        last: i64 = 0
        start = header_skip(data, pos, end)
        if start > pos:
            self._set_header(start, data[start - 1] == TRUE)
            if data_alone(data, start, end) > 0:
                self.body_code = DATA
                self.body_at = start
                return
            last = HEADER
            pos = start
        while pos < end:
            code = cursor.open(data, pos, end)
            if code <= last and not (code == last and (code == DATA or code == AMQP_SEQUENCE)):
                raise _out_of_order(code, last)
            if code > FOOTER or code < HEADER or (last >= DATA and code < FOOTER and code != last):
                raise _out_of_order(code, last)
            after = self._section(cursor, data, pos, end, code)
            if after == UNFIT:
                raise _explained(data, pos, end, code)
            last = code
            pos = after

    def _set_alone(self, pos: i64, end: i64) -> None:
        """Record a message that is one data section.

        After another such message at the same position only the end differs.
        """
        self._clear(pos, end)
        self._is_alone = True
        self.body_code = DATA
        self.body_at = pos

    def _set_header(self, end: i64, durable: bool) -> None:
        """Record a header that ends at `end` and has only the field `durable`."""
        self.durable = 1 if durable else 0
        self.header_end = end
        self.annotated_at = end
        self.annotations_end = end

    def walk_beginning(self, data: bytes, pos: i64, end: i64) -> None:
        """Walk over the header and the annotations of a well-formed message."""
        self._clear(pos, end)
        cursor = self._cursor
        while pos < end:
            code = cursor.open(data, pos, end)
            if code > MESSAGE_ANNOTATIONS:
                return
            pos = self._section(cursor, data, pos, end, code)

    def _section(self, cursor: FieldCursor, data: bytes, start: i64, end: i64, code: i64) -> i64:
        """Check and record the section at `start`, whose value the cursor has reached; return its end, or `UNFIT`."""
        pos = cursor.pos
        if DATA <= code < FOOTER:
            after = _body_section_end(data, pos, end, code)
            if self.body_code == ABSENT:
                self.body_code = code
                self.body_at = start
            self.body_end = after
            return after
        if code == HEADER:
            after = self._header(cursor)
            self.header_end = after
            self.annotated_at = after
            self.annotations_end = after
            return after
        if code == PROPERTIES:
            self.properties = pos
            return _properties_end(cursor, data)
        if code == APPLICATION_PROPERTIES:
            self.application_properties = pos
            return map_end(data, pos, end, STRING_KEYS, 2)
        after = map_end(data, pos, end, ANNOTATION_KEYS, 2)
        if code == DELIVERY_ANNOTATIONS:
            self.delivery_annotations = pos
            self.annotated_at = after
            self.annotations_end = after
        elif code == MESSAGE_ANNOTATIONS:
            self.message_annotations = pos
            self.annotations_end = after
        else:
            self.footer = pos
            if self.body_code == ABSENT:
                self.body_at = start
                self.body_end = start
        return after

    def _header(self, cursor: FieldCursor) -> i64:
        cursor.enter()
        self.durable = cursor.boolean()
        self.priority = cursor.ubyte(255)
        self.ttl = cursor.uint()
        self.first_acquirer = cursor.boolean()
        self.delivery_count = cursor.uint()
        if not cursor.is_finished():
            return UNFIT
        return cursor.pos


def header_skip(data: bytes, pos: i64, end: i64) -> i64:
    """Return the end of a header with only `durable`, as most are; `pos` without such a header."""
    if end - pos < HEADER_SKIP + 1:
        return pos
    header = (read_i64_be(data, pos) >> 8) & 0xFFFFFFFFFFFFFF
    return pos + HEADER_SKIP if header == _DURABLE_HEADER or header == _TRANSIENT_HEADER else pos


def data_alone(data: bytes, pos: i64, end: i64) -> i64:
    """Return the start of the data if one data section fills `pos` to `end`; 0 otherwise.

    Only the usual form of such a section is recognised, which most bodies have.
    """
    octets = end - pos
    if octets < 8:
        return 0
    start = read_i64_be(data, pos)
    kind = start >> 32
    if kind == _DATA8:
        if (start >> 24) & 0xFF == octets - 5:
            return pos + 5  # As statements: the result of a conditional expression would be an object.
    elif kind == _DATA32 and start & 0xFFFFFFFF == octets - 8:
        return pos + 8
    return 0


def _body_section_end(data: bytes, pos: i64, end: i64, code: i64) -> i64:
    if pos >= end:
        return UNFIT
    first: i64 = data[pos]
    if code == DATA and first != BINARY8 and first != BINARY32:
        return UNFIT
    if code == AMQP_SEQUENCE and first != LIST8 and first != LIST32 and first != LIST0:
        return UNFIT
    return value_end(data, pos, end, 2)


def _properties_end(cursor: FieldCursor, data: bytes) -> i64:
    cursor.enter()
    if cursor.malformed or cursor.left > len(_PROPERTY_CODES):
        return UNFIT
    end = cursor.end
    pos = cursor.pos
    left = cursor.left
    index: i64 = 0
    while index < left:
        if pos >= end or not _PROPERTY_CODES[index][data[pos]]:
            return UNFIT
        pos = value_end(data, pos, end, 3)
        if pos == UNFIT:
            return UNFIT
        index += 1
    if pos != end:
        return UNFIT
    return end


def data_octets(content: bytes, sections: Sections) -> i64:
    """Return the bytes in the data sections of a message; its body must be data sections."""
    total: i64 = 0
    pos = sections.body_at
    cursor = FieldCursor()
    while pos < sections.body_end:
        start, pos = _data_extent(cursor, content, pos, sections.body_end)
        total += pos - start
    return total


def joined_data(content: bytes, sections: Sections) -> bytes:
    """Return the data sections of a message joined."""
    alone = data_alone(content, sections.body_at, sections.body_end)
    if alone > 0:
        return content[alone : sections.body_end]
    parts: list[bytes] = []
    pos = sections.body_at
    cursor = FieldCursor()
    while pos < sections.body_end:
        start, pos = _data_extent(cursor, content, pos, sections.body_end)
        parts.append(content[start:pos])
    return b"".join(parts)


def _data_extent(cursor: FieldCursor, content: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """Return the start and end of the data of the data section at `pos`."""
    cursor.open(content, pos, end)
    at = cursor.pos
    if content[at] == BINARY8:
        size: i64 = content[at + 1]
        return at + 2, at + 2 + size
    return at + 5, at + 5 + u32(content, at + 1)


def header_end(content: bytes) -> i64:
    """Return the end of the header of a well-formed message; 0 without a header.

    Deliveries need no other position.
    """
    if content[1] == SMALL_ULONG and content[2] != HEADER:
        return 0
    cursor = FieldCursor()
    if cursor.open(content, 0, len(content)) != HEADER:
        return 0
    cursor.enter()
    return cursor.end


def property_at(data: bytes, properties: i64, end: i64, index: i64) -> i64:
    """Return the position of a property, at its format code; `ABSENT` if it is null or absent.

    `properties` is the position of a well-formed section (`Sections.properties`), which may be `ABSENT`.
    """
    if properties == ABSENT:
        return ABSENT
    cursor = FieldCursor()
    cursor.enter_at(data, properties, end)
    pos = cursor.pos
    if index >= cursor.left:
        return ABSENT
    while index > 0:
        pos = value_end(data, pos, end)
        index -= 1
    if data[pos] == NULL:
        return ABSENT
    return pos


NO_EXPIRY: Final = 0
"""An absolute-expiry-time of 0 means none, as in JMS."""
EXPIRY_MAX: Final = 1 << 53
"""Milliseconds since 1970 above which an absolute-expiry-time means none: no clock shows such times."""


def expiry_ms(data: bytes, properties: i64, end: i64) -> i64:
    """Return the absolute-expiry-time in milliseconds since 1970; `NO_EXPIRY` if there is none.

    `properties` is the position of a well-formed section, which may be `ABSENT`.
    """
    if properties == ABSENT or data[properties] == LIST0:
        return NO_EXPIRY
    count: i64 = data[properties + 2] if data[properties] == LIST8 else u32(data, properties + 5)
    if count <= ABSOLUTE_EXPIRY_TIME:
        return NO_EXPIRY  # Most messages have no such late property.
    pos = property_at(data, properties, end, ABSOLUTE_EXPIRY_TIME)
    expiry: i64 = NO_EXPIRY if pos == ABSENT else read_i64_be(data, pos + 1)
    return NO_EXPIRY if expiry >= EXPIRY_MAX else expiry


def _out_of_order(code: i64, last: i64) -> CodecError:
    name = SECTIONS.get(int(code))
    if name is None:
        return CodecError(f"no section has the descriptor {int(code):#04x}")
    if code == last:
        return CodecError(f"a message has two sections {name}")
    return CodecError(f"a message has a section {name} after {SECTIONS[int(last)]}")


def _explained(data: bytes, pos: i64, end: i64, code: i64) -> CodecError:
    """Return the error for the section at `pos`, which is malformed."""
    name = SECTIONS[int(code)]
    try:
        if code == HEADER or code == PROPERTIES:
            decode_composite(data, int(pos), int(end))
        else:
            ValueReader(data, int(pos), int(end)).value()
    except CodecError as error:
        reason = error.reason
        return CodecError(reason if reason.startswith(name) else f"{name}: {reason}", error.condition)
    if code == AMQP_VALUE:
        return CodecError(f"{name}: malformed")
    return CodecError(f"{name}: its value, or the key of an entry, is of a type that it may not have")


_FIRST_HEADERS: Final = (
    b"\x00\x53\x70\xc0\x05\x04\x42\x40\x40\x41",
    b"\x00\x53\x70\xc0\x05\x04\x41\x40\x40\x41",
)
"""Headers of the first delivery of a transient and of a durable message with neither priority nor ttl."""

_DURABLE_HEADERS: Final = (b"\x00\x53\x70\xc0\x02\x01\x42", b"\x00\x53\x70\xc0\x02\x01\x41")


def header_octets(
    durable: bool, priority: i64 = ABSENT, ttl: i64 = ABSENT, first_acquirer: bool = True, delivery_count: i64 = 0
) -> bytes:
    """Return a header section; priority and ttl (milliseconds) may be `ABSENT`."""
    if priority == ABSENT and ttl == ABSENT and first_acquirer and delivery_count == 0:
        return _FIRST_HEADERS[1 if durable else 0]
    fields = BytesWriter()
    write_plain(fields, BOOLEAN, durable)
    count = 1
    if priority == ABSENT:
        fields.append(0x40)
    else:
        write_plain(fields, UBYTE, int(priority))
    if ttl == ABSENT:
        fields.append(0x40)
    else:
        write_plain(fields, UINT, int(ttl))
    write_plain(fields, BOOLEAN, first_acquirer)
    count = 4
    if delivery_count > 0:
        write_plain(fields, UINT, int(delivery_count))
        count = 5
    out = BytesWriter()
    out.write(bytes((0x00, 0x53, HEADER)))
    write_list(out, count, fields.getvalue())
    return out.getvalue()


def durable_header(durable: bool) -> bytes:
    """Return the shortest header with the durability of a message."""
    return _DURABLE_HEADERS[1 if durable else 0]


def with_annotations(
    content: bytes, sections: Sections, added: dict[str, object], removed: tuple[str, ...] = ()
) -> bytes:
    """Return a message with additional message annotations; an annotation with the same key is replaced. Raises
    CodecError.

    `removed` are the keys of annotations to leave out.
    """
    fresh = [(encode_value(Symbol(key)), encode_value(value)) for key, value in added.items()]
    before: list[tuple[bytes, bytes]] = []
    if sections.message_annotations != ABSENT:
        replaced = {symbol_text(key) for key, _ in fresh} | {key.encode() for key in removed}
        before = [
            entry
            for entry in entries_of(content, sections.message_annotations, sections.end)
            if symbol_text(entry[0]) not in replaced
        ]
    section = bytes((0x00, 0x53, MESSAGE_ANNOTATIONS)) + map_octets(before + fresh)
    return content[: sections.annotated_at] + section + content[sections.annotations_end :]


def symbol_text(key: bytes) -> bytes:
    """Return the text of an encoded symbol in any form; for another key, a text that no symbol has."""
    if key[0] == 0xA3:
        return key[2:]
    if key[0] == 0xB3:
        return key[5:]
    return b"\xff" + key
