"""Decoding of values (section 1.6).

Every read is bounded by the end of the data and, inside a list, map or array, by its end: malformed data raises only
`CodecError`. Allocated memory is proportional to the bytes read. Lists, maps, arrays and described values nest at most
32 deep, so that no input can exhaust the stack.
"""

from __future__ import annotations

import struct
from typing import Final

from penstock.content.field_table import NESTING_MAX
from penstock.texts import worded
from penstock.wire.amqp10 import values
from penstock.wire.amqp10.value_walk import (
    ARRAY8,
    BOOLEAN,
    COMPOUND8,
    DESCRIBED,
    KINDS,
    LIST0,
    NESTED8,
    TRUE,
    VARIABLE8,
    VARIABLE32,
    WIDTHS,
    ZERO_WIDTH_MAX,
)
from penstock.wire.amqp10.values import OPAQUE, SIGNED, UNSIGNED, Array, CodecError, Described, tagged

_FLOAT: Final = struct.Struct(">f")
_DOUBLE: Final = struct.Struct(">d")


class ValueReader:
    """Decoder of consecutive values of `data`, from `pos` to `end`."""

    __slots__ = ("data", "pos", "end")

    def __init__(self, data: bytes, pos: int = 0, end: int = -1) -> None:
        if end < 0:
            end = len(data)
        if not 0 <= pos <= end <= len(data):
            raise CodecError(f"bytes {pos} to {end} are outside the {len(data)} that there are")
        self.data = data
        self.pos = pos
        self.end = end
        """End of the list, map or array that is being read, otherwise of the data."""

    def remaining(self) -> int:
        """Return the bytes left."""
        return self.end - self.pos

    def _take(self, size: int, what: str) -> bytes:
        start = self.pos
        stop = start + size
        if stop > self.end:
            raise CodecError(f"{what} needs {size} bytes where {self.end - start} are left")
        self.pos = stop
        return self.data[start:stop]

    def octet(self) -> int:
        """Return one byte, such as a format code."""
        if self.pos >= self.end:
            raise CodecError("a value ends before its format code")
        octet = self.data[self.pos]
        self.pos += 1
        return octet

    def value(self, depth: int = 1) -> object:
        """Return a value that carries its type (`values`); `depth` is its nesting."""
        code = self.octet()
        if code == DESCRIBED:
            check_depth(depth)
            descriptor = self.value(depth + 1)
            return Described(descriptor, self.value(depth + 1))
        return tagged(KINDS[code], self.plain(code, depth))

    def plain(self, code: int, depth: int) -> object:
        """Return a value without its type, after its format code."""
        kind = KINDS[code]
        if kind == values.LIST:
            return self._list(code, depth)
        if kind == values.MAP:
            return self._map(code, depth)
        if kind == values.ARRAY:
            return self._array(code, depth)
        if not kind:
            raise CodecError(f"no type has the format code {code:#04x}")
        return _scalar(kind, code, self._octets(code, kind))

    def _octets(self, code: int, kind: str) -> bytes:
        """Return the bytes of a scalar, without its size."""
        width = WIDTHS[code]
        if width == VARIABLE8:
            width = self._unsigned(1)
        elif width == VARIABLE32:
            width = self._unsigned(4)
        return self._take(width, f"a {kind}")

    def _unsigned(self, size: int) -> int:
        return int.from_bytes(self._take(size, "a size or count"), "big")

    def _list(self, code: int, depth: int) -> list[object]:
        outer, count = self.enter(code, depth)
        items: list[object] = []
        for _ in range(count):
            items.append(self.value(depth + 1))
        self.leave(outer)
        return items

    def _map(self, code: int, depth: int) -> dict[object, object]:
        outer, count = self.enter(code, depth)
        if count & 1:
            raise CodecError(f"a map has {count} keys and values, an odd number")
        entries: dict[object, object] = {}
        for _ in range(count >> 1):
            key = self.key(depth + 1)
            if key in entries:
                raise CodecError(f"a map has the key {worded(key)} twice")
            entries[key] = self.value(depth + 1)
        self.leave(outer)
        return entries

    def key(self, depth: int) -> object:
        """Return the key of a map entry: a scalar. The specification permits other keys, which no client uses."""
        key = self.value(depth)
        if isinstance(key, (list, dict, Array, Described)):
            raise CodecError("the key of a map is a list, map, array or described value")
        return key

    def _array(self, code: int, depth: int) -> Array:
        outer, count = self.enter(code, depth)
        if count == 0 and self.pos == self.end:  # No constructor: there is no value to describe.
            self.leave(outer)
            return Array(values.NULL, [])
        descriptors: list[object] = []
        element = self.octet()
        while element == DESCRIBED:
            check_depth(depth + len(descriptors) + 1)
            descriptors.append(self.value(depth + 1))
            element = self.octet()
        if not KINDS[element]:
            raise CodecError(f"no type has the format code {element:#04x}")
        check_count(count, self.end - self.pos, WIDTHS[element])
        items: list[object] = []
        for _ in range(count):
            items.append(self.plain(element, depth + 1))
        self.leave(outer)
        return Array(KINDS[element], items, tuple(descriptors))

    def enter(self, code: int, depth: int) -> tuple[int, int]:
        """Limit reading to a list, map or array; return the former end, for `leave`, and the count of elements."""
        check_depth(depth)
        outer = self.end
        if code == LIST0:
            self.end = self.pos
            return outer, 0
        what = f"a {KINDS[code]}"
        width = 1 if WIDTHS[code] == COMPOUND8 or WIDTHS[code] == NESTED8 else 4
        size = self._unsigned(width)
        if size < width:
            raise CodecError(f"{what} of {size} bytes has no room for its count")
        if size > outer - self.pos:
            raise CodecError(f"{what} of {size} bytes is longer than the {outer - self.pos} bytes left")
        self.end = self.pos + size
        count = self._unsigned(width)
        if code < ARRAY8:  # Each element of a list or map has one byte at least.
            check_count(count, self.end - self.pos, 1)
        return outer, count

    def leave(self, outer: int) -> None:
        """End a list, map or array."""
        if self.pos != self.end:
            raise CodecError(f"a list, map or array has {self.end - self.pos} bytes too many")
        self.end = outer


def check_depth(depth: int) -> None:
    """Raise CodecError for a value that lies too deep."""
    if depth > NESTING_MAX:
        raise CodecError(f"a value lies more than {NESTING_MAX} deep")


def check_count(count: int, octets: int, width: int) -> None:
    """Raise CodecError for more elements than the bytes left can hold."""
    if width == 0:
        if count > ZERO_WIDTH_MAX:
            raise CodecError(f"an array has {count} elements without bytes; {ZERO_WIDTH_MAX} is the most")
    elif count > octets:
        raise CodecError(f"{count} elements are more than the {octets} bytes left can hold")


def _scalar(kind: str, code: int, octets: bytes) -> object:
    """Return a scalar of its bytes."""
    if kind == values.STRING:
        return _text(octets, "utf-8", "a string is not UTF-8")
    if kind == values.SYMBOL:
        return _text(octets, "ascii", "a symbol is not ASCII")
    if kind == values.BINARY or kind in OPAQUE:
        return octets
    if kind in UNSIGNED:
        return int.from_bytes(octets, "big")
    if kind in SIGNED:
        return int.from_bytes(octets, "big", signed=True)
    if kind == values.BOOLEAN:
        return _boolean(code, octets)
    if kind == values.DOUBLE:
        return _unpacked(_DOUBLE, octets)
    if kind == values.FLOAT:
        return _unpacked(_FLOAT, octets)
    if kind == values.CHAR:
        return _character(octets)
    return None


def _text(octets: bytes, encoding: str, complaint: str) -> str:
    try:
        return octets.decode(encoding)
    except UnicodeDecodeError:
        raise CodecError(complaint) from None


def _boolean(code: int, octets: bytes) -> bool:
    if code != BOOLEAN:
        return code == TRUE
    if octets[0] > 1:
        raise CodecError(f"a boolean has the byte {octets[0]:#04x}")
    return octets[0] == 1


def _unpacked(layout: struct.Struct, octets: bytes) -> float:
    number: float = layout.unpack(octets)[0]
    return number


def _character(octets: bytes) -> str:
    number = int.from_bytes(octets, "big")
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise CodecError(f"a char has the number {number:#x}, which is no character")
    return chr(number)


def decode_value(data: bytes, pos: int = 0) -> tuple[object, int]:
    """Read the value at `pos`; return it and the position after it. Raises CodecError."""
    reader = ValueReader(data, pos)
    value = reader.value()
    return value, reader.pos
