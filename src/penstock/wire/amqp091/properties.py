"""The content header: the size of a body, and the fourteen properties of a message (sections 2.3.5.2 and 4.2.6.1)."""

from __future__ import annotations

from typing import Final

from penstock.content.properties import Properties
from penstock.wire.amqp091.field_reader import FieldReader
from penstock.wire.amqp091.field_writer import write_shortstr, write_table, write_unsigned
from penstock.wire.amqp091.malformed import CodecError
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
_UNKNOWN: Final = 0b11
"""Bit 1 has no meaning and bit 0 announces more flags, which 0-9-1 never defined."""


def decode_properties(payload: bytes) -> tuple[int, Properties]:
    """Body size in octets and properties from the payload of a content header frame.

    Raises `CodecError` for anything but a well-formed header of class basic.
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
        raise CodecError(f"a content header has {reader.remaining()} octets too many")
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
    """The payload of a content header frame; `body_size` in octets. Raises `CodecError` for a value out of range."""
    out = bytearray(b"\x00\x3c\x00\x00")
    write_unsigned(out, body_size, 8)
    at = len(out)
    out += b"\x00\x00"
    out[at : at + 2] = _write_properties(out, properties).to_bytes(2, "big")
    return bytes(out)


def _write_properties(out: bytearray, properties: Properties) -> int:
    """Append the properties that are present, in wire order; returns their flags."""
    flags = _write_text(out, properties.content_type, _CONTENT_TYPE)
    flags |= _write_text(out, properties.content_encoding, _CONTENT_ENCODING)
    if properties.headers is not None:
        write_table(out, properties.headers)
        flags |= _HEADERS
    flags |= _write_number(out, properties.delivery_mode, 1, _DELIVERY_MODE)
    flags |= _write_number(out, properties.priority, 1, _PRIORITY)
    flags |= _write_text(out, properties.correlation_id, _CORRELATION_ID)
    flags |= _write_text(out, properties.reply_to, _REPLY_TO)
    flags |= _write_text(out, properties.expiration, _EXPIRATION)
    flags |= _write_text(out, properties.message_id, _MESSAGE_ID)
    flags |= _write_number(out, properties.timestamp, 8, _TIMESTAMP)
    flags |= _write_text(out, properties.type, _TYPE)
    flags |= _write_text(out, properties.user_id, _USER_ID)
    flags |= _write_text(out, properties.app_id, _APP_ID)
    return flags | _write_text(out, properties.cluster_id, _CLUSTER_ID)


def _write_text(out: bytearray, value: str | None, flag: int) -> int:
    if value is None:
        return 0
    write_shortstr(out, value)
    return flag


def _write_number(out: bytearray, value: int | None, size: int, flag: int) -> int:
    if value is None:
        return 0
    write_unsigned(out, value, size)
    return flag
