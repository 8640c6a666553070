"""Contents of the rows of a block: header and body frames, written from columns without an object for each property."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, u8
from typing_extensions import override

from penstock.content.message_columns import MessageColumns, NumberColumn, OctetsColumn
from penstock.core.message_format import RowEncoder
from penstock.errors import PreconditionFailed
from penstock.flow.level import OVERHEAD
from penstock.protocols.amqp091.content_frames import FRAME_PAYLOAD_MAX
from penstock.wire.amqp091.codec import CodecError, encode_table
from penstock.wire.amqp091.content_header import FIXED_OCTETS, FLAGS_AT
from penstock.wire.amqp091.spec import FRAME_END

_BEFORE_SIZE: Final = b"\x02\x00\x00\x00\x00\x00\x00\x00\x3c\x00\x00"
"""A header frame of channel 0 up to the size of the body; its own size is filled in."""
_BODY: Final = b"\x03\x00\x00"
_END: Final = b"\xce"
COPIED_OCTETS: Final = 400
"""Longest body that is written behind its header; a longer one is joined with it, which copies it once less."""

_SHORT: Final = 0
_OCTET: Final = 1
_LONG: Final = 2
_TABLE: Final = 3
"""Kinds of properties in a content header (AMQP 0-9-1 section 1.8.1)."""
_PROPERTIES: Final = (
    ("content_type", 0x8000, _SHORT),
    ("content_encoding", 0x4000, _SHORT),
    ("headers", 0x2000, _TABLE),
    ("delivery_mode", 0x1000, _OCTET),
    ("priority", 0x0800, _OCTET),
    ("correlation_id", 0x0400, _SHORT),
    ("reply_to", 0x0200, _SHORT),
    ("expiration", 0x0100, _SHORT),
    ("message_id", 0x0080, _SHORT),
    ("message_timestamp", 0x0040, _LONG),
    ("type", 0x0020, _SHORT),
    ("user_id", 0x0010, _SHORT),
    ("app_id", 0x0008, _SHORT),
)
"""Names, flags and kinds in the order of the wire."""


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
        for name, flag, kind in _PROPERTIES:
            if kind == _TABLE:
                if columns.has_headers():
                    self._properties.append(_Property(flag, kind, None, None))
                continue
            texts = columns.texts.get(name) if kind == _SHORT else None
            numbers = _numbers(columns, name)
            if texts is not None or numbers is not None:
                self._properties.append(_Property(flag, kind, texts, numbers))

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
                f"row {int(row)} has properties of {int(octets):,} octets, but a frame holds {FRAME_PAYLOAD_MAX:,}"
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
                    if each.kind == _OCTET:
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
    return columns.timestamp if name == "message_timestamp" else None


def _table(headers: dict[str, object], row: i64) -> bytes:
    try:
        return encode_table(headers)
    except CodecError as error:
        raise PreconditionFailed(f"row {int(row)} has headers that cannot be sent: {error.reason}") from None
