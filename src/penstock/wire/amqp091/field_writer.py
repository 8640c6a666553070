"""Encoding of single fields, the counterpart of `field_reader`, with the value types of RabbitMQ's clients."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from penstock.content.field_table import NESTING_MAX
from penstock.wire.amqp091.field_reader import EPOCH
from penstock.wire.amqp091.malformed import CodecError
from penstock.wire.amqp091.spec import ReplyCode

_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_UINT32_MAX: Final = (1 << 32) - 1


def unfit(what: str, value: object) -> CodecError:
    """The error for a value of the broker that AMQP 0-9-1 cannot carry as `what`."""
    text = repr(value)
    if len(text) > 60:
        text = text[:60] + "…"
    return CodecError(f"{text} does not fit {what}", ReplyCode.SYNTAX_ERROR)


def write_unsigned(out: bytearray, value: object, size: int) -> None:
    """Append an unsigned integer of `size` octets."""
    if not isinstance(value, int) or value < 0 or value >> (8 * size):
        raise unfit(f"an unsigned integer of {8 * size} bits", value)
    out += value.to_bytes(size, "big")


def write_shortstr(out: bytearray, value: object) -> None:
    """Append a short string: at most 255 octets of UTF-8."""
    if not isinstance(value, str):
        raise unfit("a short string", value)
    octets = _utf8(value)
    if len(octets) > 255:
        raise CodecError(f"{value[:60]!r}… has {len(octets)} octets, a short string 255", ReplyCode.SYNTAX_ERROR)
    out.append(len(octets))
    out += octets


def write_longstr(out: bytearray, value: object) -> None:
    """Append a long string; text goes out as UTF-8."""
    if isinstance(value, str):
        octets = _utf8(value)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        octets = bytes(value)
    else:
        raise unfit("a long string", value)
    write_unsigned(out, len(octets), 4)
    out += octets


def write_table(out: bytearray, table: object, depth: int = 1) -> None:
    """Append a field table, itself lying `depth` deep."""
    if not isinstance(table, dict):
        raise unfit("a table", table)
    start = _begin(out, depth)
    for name, value in table.items():
        write_shortstr(out, name)
        write_value(out, value, depth)
    _finish(out, start)


def write_value(out: bytearray, value: object, depth: int) -> None:
    """Append a typed value of a table or array that lies `depth` deep.

    str → S, bool → t, int → I or l (the smaller that fits), dict → F, list and tuple → A, None → V, datetime → T
    (seconds; without a zone it is taken for UTC), float → d, bytes → x, Decimal → D.
    """
    if isinstance(value, str):
        out += b"S"
        write_longstr(out, value)
    elif isinstance(value, bool):
        out += b"t\x01" if value else b"t\x00"
    elif isinstance(value, int):
        _write_int(out, value)
    elif isinstance(value, dict):
        out += b"F"
        write_table(out, value, depth + 1)
    elif isinstance(value, (list, tuple)):
        out += b"A"
        start = _begin(out, depth + 1)
        for item in value:
            write_value(out, item, depth + 1)
        _finish(out, start)
    elif value is None:
        out += b"V"
    else:
        _write_rare_value(out, value)


def _write_rare_value(out: bytearray, value: object) -> None:
    if isinstance(value, datetime):
        out += b"T"
        write_unsigned(out, epoch_seconds(value), 8)
    elif isinstance(value, float):
        out += b"d"
        out += struct.pack(">d", value)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        out += b"x"
        write_longstr(out, value)
    elif isinstance(value, Decimal):
        _write_decimal(out, value)
    else:
        raise unfit("a field table", value)


def epoch_seconds(moment: datetime) -> int:
    """Whole seconds since the epoch; a moment without a zone is taken for UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - EPOCH
    return passed.days * 86400 + passed.seconds


def _write_int(out: bytearray, value: int) -> None:
    if _INT32_MIN <= value <= _INT32_MAX:
        out += b"I"
        out += value.to_bytes(4, "big", signed=True)
    elif _INT64_MIN <= value <= _INT64_MAX:
        out += b"l"
        out += value.to_bytes(8, "big", signed=True)
    else:
        raise unfit("a signed integer of 64 bits", value)


def _write_decimal(out: bytearray, value: Decimal) -> None:
    if not value.is_finite():
        raise unfit("a decimal", value)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # it is a letter only for what is not finite
    if len(digits) > 10 or exponent > 9 or exponent < -255:
        raise unfit("a decimal", value)
    unscaled = 0
    for digit in digits:
        unscaled = unscaled * 10 + digit
    if exponent > 0:
        unscaled *= 10**exponent
    if sign:
        unscaled = -unscaled
    if not _INT32_MIN <= unscaled <= _INT32_MAX:
        raise unfit("a decimal", value)
    out += b"D"
    out.append(max(-exponent, 0))
    out += unscaled.to_bytes(4, "big", signed=True)


def _begin(out: bytearray, depth: int) -> int:
    """Reserve the size field of a table or array; returns the start of its content."""
    if depth > NESTING_MAX:
        raise CodecError(f"a table or array lies more than {NESTING_MAX} deep", ReplyCode.SYNTAX_ERROR)
    out += b"\x00\x00\x00\x00"
    return len(out)


def _finish(out: bytearray, start: int) -> None:
    size = len(out) - start
    if size > _UINT32_MAX:
        raise CodecError(f"a table or array of {size} octets is too large", ReplyCode.SYNTAX_ERROR)
    out[start - 4 : start] = size.to_bytes(4, "big")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # lone surrogates
        raise unfit("UTF-8", text) from None


def encode_shortstr(text: str) -> bytes:
    """Encode a short string. Raises `CodecError` for a text that is too long: names are checked when they come in."""
    encoded = text.encode()
    if len(encoded) > 255:
        raise unfit("a short string", text)
    return bytes([len(encoded)]) + encoded
