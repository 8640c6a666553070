"""Encoding of values, the counterpart of `value_reader`: each value in its smallest form."""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, u8

from penstock.texts import worded
from penstock.wire.amqp10 import values
from penstock.wire.amqp10.frames import write_frame_start
from penstock.wire.amqp10.value_reader import check_depth
from penstock.wire.amqp10.value_walk import (
    ARRAY8,
    ARRAY32,
    BINARY8,
    BINARY32,
    DOUBLE,
    FALSE,
    LIST0,
    LIST8,
    LIST32,
    MAP8,
    MAP32,
    NULL,
    SMALL_UINT,
    STRING8,
    STRING32,
    SYMBOL8,
    SYMBOL32,
    TRUE,
    UINT,
    UINT0,
    ZERO_WIDTH_MAX,
)
from penstock.wire.amqp10.values import (
    INVALID_FIELD,
    OPAQUE,
    SIGNED,
    UNSIGNED,
    Array,
    CodecError,
    Described,
    Symbol,
    Typed,
)

_FLOAT: Final = struct.Struct(">f")
_DOUBLE: Final = struct.Struct(">d")

_FULL: Final[dict[str, int]] = {
    values.UBYTE: 0x50, values.USHORT: 0x60, values.UINT: 0x70, values.ULONG: 0x80,
    values.BYTE: 0x51, values.SHORT: 0x61, values.INT: 0x71, values.LONG: 0x81, values.TIMESTAMP: 0x83,
    values.FLOAT: 0x72, values.DOUBLE: DOUBLE, values.CHAR: 0x73, values.UUID: 0x98,
    values.DECIMAL32: 0x74, values.DECIMAL64: 0x84, values.DECIMAL128: 0x94,
}  # fmt: skip
"""Format code of each scalar with a fixed width, in its full form."""
_SMALL: Final[dict[str, int]] = {values.UINT: 0x52, values.ULONG: 0x53, values.INT: 0x54, values.LONG: 0x55}
"""Format code of the form with one byte."""
_ZERO: Final[dict[str, int]] = {values.UINT: 0x43, values.ULONG: 0x44}
"""Format code of the form without a byte."""
_SIZED: Final[dict[str, tuple[int, int]]] = {
    values.BINARY: (BINARY8, BINARY32),
    values.STRING: (STRING8, STRING32),
    values.SYMBOL: (SYMBOL8, SYMBOL32),
    values.LIST: (LIST8, LIST32),
    values.MAP: (MAP8, MAP32),
    values.ARRAY: (ARRAY8, ARRAY32),
}
"""Format codes of the forms with a size of one byte and of four."""
_UINT32_MAX: Final = (1 << 32) - 1
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
SMALL_LONG: Final = 0x55
WIDE: Final = 0x10
"""Bit in which the format code of a four-byte size differs from that of a one-byte size."""


def unfit(value: object, kind: str) -> CodecError:
    """Return the error for a value that a type cannot carry."""
    return CodecError(f"{worded(value)} does not fit the type {kind}", INVALID_FIELD)


def encode_value(value: object) -> bytes:
    """Return a value as bytes. Raises CodecError."""
    out = BytesWriter()
    write_value(out, value)
    return out.getvalue()


def write_value(out: BytesWriter, value: object, depth: int = 1) -> None:
    """Append a value that lies `depth` deep; `values` has the AMQP type of each Python type. Raises CodecError."""
    if value is None:
        out.append(0x40)
    elif isinstance(value, str):
        _write_octets(out, STRING8, encode_text(value))
    elif isinstance(value, bool):
        out.append(0x41 if value else 0x42)
    elif isinstance(value, Symbol):
        _write_octets(out, SYMBOL8, _symbol_octets(value.text))
    elif isinstance(value, int):
        _write_long(out, value)
    elif isinstance(value, Typed):
        write_plain(out, value.kind, value.value, depth)
    elif isinstance(value, Described):
        check_depth(depth)
        out.append(0x00)
        write_value(out, value.descriptor, depth + 1)
        write_value(out, value.value, depth + 1)
    elif isinstance(value, (list, tuple)):
        write_plain(out, values.LIST, value, depth)
    elif isinstance(value, dict):
        _write_sized(out, values.MAP, value, depth)
    elif isinstance(value, bytes):
        _write_octets(out, BINARY8, value)
    elif isinstance(value, (bytearray, memoryview)):
        write_plain(out, values.BINARY, value, depth)
    elif isinstance(value, float):
        write_plain(out, values.DOUBLE, value, depth)
    elif isinstance(value, Array):
        write_plain(out, values.ARRAY, value, depth)
    else:
        raise unfit(value, "of any AMQP value")


def _write_octets(out: BytesWriter, code: int, octets: bytes) -> None:
    """Append a string, symbol or binary; `code` is the format code of its form with a size of one byte."""
    size: i64 = len(octets)
    if size > 0xFF:
        out.append(code | WIDE)
        _write_content(out, -1, octets, 4)
    else:
        out.append(code)
        out.append(int(size))
        out.write(octets)


def _write_long(out: BytesWriter, value: int) -> None:
    """Append a long in its smallest form. Raises CodecError for an integer of more than 64 bits."""
    if -128 <= value < 128:
        out.append(SMALL_LONG)
        out.append(value & 0xFF)
    elif _INT64_MIN <= value <= _INT64_MAX:
        out.append(_FULL[values.LONG])
        write_i64_be(out, value)
    else:
        raise unfit(value, values.LONG)


def write_plain(out: BytesWriter, kind: str, value: object, depth: int = 1) -> None:
    """Append a value of a named type, in its smallest form."""
    if kind == values.BOOLEAN and isinstance(value, bool):
        out.append(0x41 if value else 0x42)
    elif kind == values.NULL and value is None:
        out.append(0x40)
    elif kind in _SIZED:
        _write_sized(out, kind, value, depth)
    else:
        octets = _fixed(kind, value)
        short = _short(kind, octets)
        if short == 0:
            out.append(_ZERO[kind])
        elif short < len(octets):
            out.append(_SMALL[kind])
            out.append(octets[-1])
        else:
            out.append(_FULL[kind])
            out.write(octets)


def _write_sized(out: BytesWriter, kind: str, value: object, depth: int) -> None:
    count, content = _sized(kind, value, depth)
    if count == 0 and kind == values.LIST:
        out.append(LIST0)
        return
    small = len(content) <= 254 and count <= 255 if count >= 0 else len(content) <= 255
    out.append(_SIZED[kind][0] if small else _SIZED[kind][1])
    _write_content(out, count, content, 1 if small else 4)


def _write_content(out: BytesWriter, count: int, content: bytes, width: int) -> None:
    """Append size, count and content; a negative count means that the type has no count."""
    size = len(content) if count < 0 else len(content) + width
    if size > _UINT32_MAX:
        raise CodecError(f"a value of {size} bytes is too large", INVALID_FIELD)
    out.write(size.to_bytes(width, "big"))
    if count >= 0:
        out.write(count.to_bytes(width, "big"))
    out.write(content)


def _fixed(kind: str, value: object) -> bytes:
    """Return the bytes of a scalar with a fixed width, in its full form."""
    if kind in UNSIGNED:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 8 * UNSIGNED[kind]:
            return value.to_bytes(UNSIGNED[kind], "big")
    elif kind in SIGNED:
        bound = 1 << 8 * SIGNED[kind] - 1
        if isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound:
            return value.to_bytes(SIGNED[kind], "big", signed=True)
    elif kind in OPAQUE:
        if isinstance(value, bytes) and len(value) == OPAQUE[kind]:
            return value
    elif kind == values.CHAR:
        if isinstance(value, str) and len(value) == 1 and not 0xD800 <= ord(value) < 0xE000:
            return ord(value).to_bytes(4, "big")
    elif kind == values.DOUBLE or kind == values.FLOAT:
        if isinstance(value, (float, int)):
            return _packed(_DOUBLE if kind == values.DOUBLE else _FLOAT, value, kind)
    raise unfit(value, kind)


def _packed(layout: struct.Struct, value: object, kind: str) -> bytes:
    try:
        return layout.pack(value)
    except (OverflowError, struct.error):
        raise unfit(value, kind) from None


def _short(kind: str, octets: bytes) -> int:
    """Return the bytes of the shortest form: 0 or 1 byte, otherwise all."""
    if kind not in _SMALL:
        return len(octets)
    last = octets[-1]
    if kind in _ZERO:
        if any(octets[:-1]):
            return len(octets)
        return 0 if last == 0 else 1
    sign = 0xFF if last & 0x80 else 0
    return 1 if all(octet == sign for octet in octets[:-1]) else len(octets)


def _sized(kind: str, value: object, depth: int) -> tuple[int, bytes]:
    """Return the count of elements (-1 if the type has none) and the content."""
    if kind == values.STRING and isinstance(value, str):
        return -1, encode_text(value)
    if kind == values.SYMBOL and isinstance(value, str):
        return -1, _symbol_octets(value)
    if kind == values.BINARY and isinstance(value, (bytes, bytearray, memoryview)):
        return -1, bytes(value)
    content = BytesWriter()
    if kind == values.LIST and isinstance(value, (list, tuple)):
        check_depth(depth)
        for item in value:
            write_value(content, item, depth + 1)
        return len(value), content.getvalue()
    if kind == values.MAP and isinstance(value, dict):
        check_depth(depth)
        for key, item in value.items():
            if isinstance(key, (tuple, Described)):
                raise unfit(key, "of a map's key")
            write_value(content, key, depth + 1)
            write_value(content, item, depth + 1)
        return 2 * len(value), content.getvalue()
    if kind == values.ARRAY and isinstance(value, Array):
        check_depth(depth)
        _write_elements(content, value, depth)
        return len(value.values), content.getvalue()
    raise unfit(value, kind)


def encode_text(text: str) -> bytes:
    """Return the bytes of a string, without a format code. Raises CodecError for lone surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise unfit(text, values.STRING) from None


def _symbol_octets(text: str) -> bytes:
    if not text.isascii():
        raise unfit(text, values.SYMBOL)
    return text.encode()


def _write_elements(out: BytesWriter, array: Array, depth: int) -> None:
    """Append the constructor of an array and its elements, which share one form."""
    for position, descriptor in enumerate(array.descriptors):
        check_depth(depth + position + 1)
        out.append(0x00)
        write_value(out, descriptor, depth + 1)
    kind = array.kind
    if kind == values.NULL:
        if len(array.values) > ZERO_WIDTH_MAX or any(value is not None for value in array.values):
            raise unfit(array, values.ARRAY)
        out.append(0x40)
    elif kind == values.BOOLEAN:
        out.append(0x56)
        for value in array.values:
            if not isinstance(value, bool):
                raise unfit(value, kind)
            out.append(1 if value else 0)
    elif kind in _SIZED:
        _write_sized_elements(out, array, depth)
    else:
        if kind not in _FULL:
            raise CodecError(f"no type of AMQP has the name {kind}", INVALID_FIELD)
        encoded = [_fixed(kind, value) for value in array.values]
        small = kind in _SMALL and all(_short(kind, octets) <= 1 for octets in encoded)
        out.append(_SMALL[kind] if small else _FULL[kind])
        for octets in encoded:
            out.write(octets[-1:] if small else octets)


def _write_sized_elements(out: BytesWriter, array: Array, depth: int) -> None:
    parts = [_sized(array.kind, value, depth + 1) for value in array.values]
    small = all(len(content) <= 254 and count <= 255 for count, content in parts)
    out.append(_SIZED[array.kind][0] if small else _SIZED[array.kind][1])
    for count, content in parts:
        _write_content(out, count, content, 1 if small else 4)


_LIST_AT: Final = 13
"""Position in a frame after which the bytes of its performative's list count: 8 of the frame's header, 3 of the
descriptor, the format code and the size."""


def begin_performative(out: BytesWriter, channel: i64, code: i64) -> i64:
    """Write a frame up to the first field of its performative; return its position, for `end_performative`.

    The list has at most 254 bytes of fields.
    """
    start: i64 = len(out)
    write_frame_start(out, 0, channel)
    write_i32_be(out, i32(0x005300C0 | code << 8))
    out.append(0)  # size
    out.append(0)  # count
    return start


def end_performative(out: BytesWriter, start: i64, count: i64, payload: i64 = 0) -> None:
    """Fill in sizes and count after the last field; `payload` is the bytes of payload that follow."""
    end: i64 = len(out)
    size = end - start - _LIST_AT
    out[start + 12] = u8(size)
    out[start + 13] = u8(count)
    total = end - start + payload
    out[start] = u8(total >> 24 & 0xFF)
    out[start + 1] = u8(total >> 16 & 0xFF)
    out[start + 2] = u8(total >> 8 & 0xFF)
    out[start + 3] = u8(total & 0xFF)


def put_uint(out: BytesWriter, value: i64) -> None:
    """Write a uint; null if it is negative."""
    if value > 0xFF:
        out.append(UINT)
        write_i32_be(out, i32(value - 0x100000000) if value > 0x7FFFFFFF else i32(value))
    elif value > 0:
        out.append(SMALL_UINT)
        out.append(int(value))
    elif value == 0:
        out.append(UINT0)
    else:
        out.append(NULL)


def put_boolean(out: BytesWriter, value: i64) -> None:
    """Write a boolean of 0 or 1; null if it is negative."""
    out.append(TRUE if value > 0 else FALSE if value == 0 else NULL)
