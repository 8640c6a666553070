"""The content header: the size of a body, and the fourteen properties of a message (sections 2.3.5.2 and 4.2.6.1)."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64, u8

from penstock.content.field_table import NESTING_MAX
from penstock.content.properties import Properties
from penstock.wire.amqp091.fields import CodecError, FieldReader, shortstr_octets, unfit, write_table, write_unsigned
from penstock.wire.amqp091.spec import CLASS_BASIC, ReplyCode

_CONTENT_TYPE: Final = 1 << 15
_CONTENT_ENCODING: Final = 1 << 14
_HEADERS: Final = 1 << 13
_DELIVERY_MODE: Final = 1 << 12
_PRIORITY: Final = 1 << 11
_CORRELATION_ID: Final = 1 << 10
_REPLY_TO: Final = 1 << 9
_EXPIRATION: Final = 1 << 8
_MESSAGE_ID: Final = 1 << 7
_TIMESTAMP: Final = 1 << 6
_TYPE: Final = 1 << 5
_USER_ID: Final = 1 << 4
_APP_ID: Final = 1 << 3
_CLUSTER_ID: Final = 1 << 2
_INT64_MAX: Final = (1 << 63) - 1
_UNKNOWN: Final = 0b11
"""Bit 1 has no meaning and bit 0 announces more flags, which 0-9-1 never defined."""


def decode_properties(payload: bytes) -> tuple[int, Properties]:
    """Body size in bytes and properties from the payload of a content header frame.

    Raises `CodecError` unless the header is a well-formed header of class basic.
    """
    reader = FieldReader(payload)
    class_id = reader.short()
    if class_id != CLASS_BASIC:
        raise CodecError(f"a content header is of class {class_id}, not basic", ReplyCode.UNEXPECTED_FRAME)
    if reader.short() != 0:
        raise CodecError("the weight of a content header is not zero")
    body_size = reader.longlong()
    flags = reader.short()
    if flags & _UNKNOWN:
        raise CodecError(f"a content header has unknown property flags: {flags:#06x}")
    properties = Properties()
    _read_properties(reader, flags, properties)
    if reader.remaining():
        raise CodecError(f"a content header has {reader.remaining()} bytes too many")
    return body_size, properties


def _read_properties(reader: FieldReader, flags: int, properties: Properties) -> None:
    if flags & _CONTENT_TYPE:
        properties.content_type = reader.shortstr()
    if flags & _CONTENT_ENCODING:
        properties.content_encoding = reader.shortstr()
    if flags & _HEADERS:
        properties.headers = reader.table()
    if flags & _DELIVERY_MODE:
        properties.delivery_mode = reader.octet()
    if flags & _PRIORITY:
        properties.priority = reader.octet()
    if flags & _CORRELATION_ID:
        properties.correlation_id = reader.shortstr()
    if flags & _REPLY_TO:
        properties.reply_to = reader.shortstr()
    if flags & _EXPIRATION:
        properties.expiration = reader.shortstr()
    if flags & _MESSAGE_ID:
        properties.message_id = reader.shortstr()
    if flags & _TIMESTAMP:
        properties.timestamp = reader.longlong()
    if flags & _TYPE:
        properties.type = reader.shortstr()
    if flags & _USER_ID:
        properties.user_id = reader.shortstr()
    if flags & _APP_ID:
        properties.app_id = reader.shortstr()
    if flags & _CLUSTER_ID:
        properties.cluster_id = reader.shortstr()


def encode_header(body_size: int, properties: Properties) -> bytes:
    """The payload of a content header frame; `body_size` in bytes. Raises `CodecError` for a value out of range."""
    out = BytesWriter()
    out.write(b"\x00\x3c\x00\x00")
    if body_size < 0 or body_size >> 64:
        raise unfit("an unsigned integer of 64 bits", body_size)
    write_i64_be(out, body_size if body_size <= _INT64_MAX else body_size - (1 << 64))
    out.write(b"\x00\x00")
    flags: i64 = _write_properties(out, properties)
    out[FIXED_OCTETS] = u8(flags >> 8)
    out[FIXED_OCTETS + 1] = u8(flags & 0xFF)
    return out.getvalue()


def _write_properties(out: BytesWriter, properties: Properties) -> int:
    """Append the properties that are present, in wire order; returns their flags."""
    flags = _write_text(out, properties.content_type, _CONTENT_TYPE)
    flags |= _write_text(out, properties.content_encoding, _CONTENT_ENCODING)
    if properties.headers is not None:
        table = bytearray()
        write_table(table, properties.headers)
        out.write(table)
        flags |= _HEADERS
    flags |= _write_octet(out, properties.delivery_mode, _DELIVERY_MODE)
    flags |= _write_octet(out, properties.priority, _PRIORITY)
    flags |= _write_text(out, properties.correlation_id, _CORRELATION_ID)
    flags |= _write_text(out, properties.reply_to, _REPLY_TO)
    flags |= _write_text(out, properties.expiration, _EXPIRATION)
    flags |= _write_text(out, properties.message_id, _MESSAGE_ID)
    if properties.timestamp is not None:
        moment = bytearray()
        write_unsigned(moment, properties.timestamp, 8)
        out.write(moment)
        flags |= _TIMESTAMP
    flags |= _write_text(out, properties.type, _TYPE)
    flags |= _write_text(out, properties.user_id, _USER_ID)
    flags |= _write_text(out, properties.app_id, _APP_ID)
    return flags | _write_text(out, properties.cluster_id, _CLUSTER_ID)


def _write_text(out: BytesWriter, value: str | None, flag: int) -> int:
    if value is None:
        return 0
    octets = shortstr_octets(value)
    out.append(len(octets))
    out.write(octets)
    return flag


def _write_octet(out: BytesWriter, value: int | None, flag: int) -> int:
    if value is None:
        return 0
    if not 0 <= value <= 255:
        raise unfit("an unsigned integer of 8 bits", value)
    out.append(value)
    return flag


FIXED_OCTETS: Final = 12
"""Class, weight and body size, before the property flags (AMQP 0-9-1 section 4.2.6.1)."""

FLAGS_AT: Final = 7 + FIXED_OCTETS
"""Bytes of a header frame before its property flags."""

UNFIT: Final = -1
HEADERS_FLAG: Final = 1 << 13
"""The flag of the headers table (section 1.8.1)."""

_NO_MEANING: Final = 0b11
"""Bit 0 would continue the flags in a second word, bit 1 is unassigned: class basic has neither."""

SHORTSTR: Final = -1
TABLE: Final = -2
SIZES: Final[list[int]] = [SHORTSTR, SHORTSTR, TABLE, 1, 1, *([SHORTSTR] * 4), 8, *([SHORTSTR] * 4)]
"""Bytes of each property in flag order, the highest bit first."""

HEADERS: Final = 2
DELIVERY_MODE: Final = 3
PRIORITY: Final = 4
REPLY_TO: Final = 6
EXPIRATION: Final = 7
USER_ID: Final = 11
"""Indexes of properties in the order of their flags (section 1.8.1)."""


LONGSTR: Final = -3
ARRAY: Final = -4
UNKNOWN: Final = -5


def _value_sizes() -> list[int]:
    """Return the size of each type of field value: bytes, or one of the constants above (section 4.2.1)."""
    sizes = [UNKNOWN] * 256
    for kinds, size in (
        (b"V", 0), (b"tbB", 1), (b"su", 2), (b"Iif", 4), (b"D", 5), (b"lLTd", 8),
        (b"Sx", LONGSTR), (b"F", TABLE), (b"A", ARRAY),
    ):  # fmt: skip
        for kind in kinds:
            sizes[kind] = size
    return sizes


VALUE_SIZES: Final[list[int]] = _value_sizes()


def property_flags(data: bytes, pos: i64, end: i64) -> i64:
    """Return the flags at `pos`; `UNFIT` unless the bytes from there up to `end` are exactly one property list.

    A headers table is checked too: a malformed table would be delivered to consumers, which cannot refuse it.
    """
    if end - pos < 2:
        return UNFIT
    result: i64 = (data[pos] << 8) | data[pos + 1]
    flags = result
    pos += 2
    if flags & _NO_MEANING:
        return UNFIT
    index: i64 = 0
    while flags & 0xFFFF:
        if flags & 0x8000:
            start = pos
            pos = property_end(data, pos, end, index)
            if pos == UNFIT:
                return UNFIT
            if index == HEADERS and not table_fits(data, start + 4, pos, 1):
                return UNFIT
        flags <<= 1
        index += 1
    # As two returns: a conditional expression would create an object of the flags.
    if pos != end:
        return UNFIT
    return result


def table_fits(data: bytes, pos: i64, end: i64, depth: i64) -> bool:
    """Return whether the bytes from `pos` up to `end` are the entries of a field table, itself lying `depth` deep."""
    while pos < end:
        pos += 1 + i64(data[pos])
        if pos >= end:
            return False
        pos = _value_end(data, pos, end, depth)
        if pos == UNFIT:
            return False
    return pos == end


def _value_end(data: bytes, pos: i64, end: i64, depth: i64) -> i64:
    """Return the end of the typed value at `pos`; `UNFIT` if it is malformed, or extends beyond `end`."""
    size: i64 = VALUE_SIZES[data[pos]]
    pos += 1
    if size >= 0:
        if pos + size > end:
            return UNFIT
        return pos + size
    if size == UNKNOWN or pos + 4 > end:
        return UNFIT
    stop = pos + 4 + _u32(data, pos)
    pos += 4
    if stop > end:
        return UNFIT
    if size == LONGSTR:
        return stop
    if depth >= NESTING_MAX:
        return UNFIT
    if size == TABLE:
        if table_fits(data, pos, stop, depth + 1):
            return stop
        return UNFIT
    while pos < stop:
        pos = _value_end(data, pos, stop, depth + 1)
        if pos == UNFIT:
            return UNFIT
    return pos


def property_end(data: bytes, pos: i64, end: i64, index: i64) -> i64:
    """Return the end of the property at `pos`; `UNFIT` if it extends beyond `end`.

    `index` is its index in the order of the flags.
    """
    size: i64 = SIZES[index]
    if size == SHORTSTR:
        if pos >= end:
            return UNFIT
        size = 1 + i64(data[pos])
    elif size == TABLE:
        if pos + 4 > end:
            return UNFIT
        size = 4 + _u32(data, pos)
    pos += size
    if pos > end:
        return UNFIT
    return pos


def skip_properties(data: bytes, pos: i64, flags: i64, index: i64, to: i64) -> i64:
    """Return the position of property `to` in a well-formed list, from the position of property `index`.

    Both are indexes in the order of the flags; neither property needs to be present.
    """
    end: i64 = len(data)
    while index < to:
        if flags & (0x8000 >> index):
            pos = property_end(data, pos, end, index)
        index += 1
    return pos


def property_at(content: bytes, index: i64) -> i64:
    """Return the position of a property in a content whose header was found to be well formed; 0 if the property is
    absent.
    """
    flags = flags_of(content)
    if not flags & (0x8000 >> index):
        return 0
    return skip_properties(content, FLAGS_AT + 2, flags, 0, index)


def _u32(data: bytes, pos: i64) -> i64:
    return (i64(data[pos]) << 24) | (data[pos + 1] << 16) | (data[pos + 2] << 8) | data[pos + 3]


def flags_of(content: bytes) -> i64:
    """Return the property flags of a message whose header was found to be well formed."""
    return (content[FLAGS_AT] << 8) | content[FLAGS_AT + 1]
