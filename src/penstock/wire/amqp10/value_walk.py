"""Values in place: validation, and the end of each value; and maps by the type of their keys.

Messages pass a broker without being decoded. `ValueReader` can read every value that is well formed here, except nested
maps with a duplicate key; maps of a section are checked for duplicates (`map_end`).

Format codes: the byte before each value, with its type and size (section 1.6).
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from penstock.content.field_table import NESTING_MAX
from penstock.wire.amqp10 import values

DESCRIBED: Final = 0x00
NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
UINT0: Final = 0x43
LIST0: Final = 0x45
UBYTE: Final = 0x50
SMALL_UINT: Final = 0x52
SMALL_ULONG: Final = 0x53
BOOLEAN: Final = 0x56
UINT: Final = 0x70
CHAR: Final = 0x73
ULONG: Final = 0x80
DOUBLE: Final = 0x82
TIMESTAMP: Final = 0x83
BINARY8: Final = 0xA0
STRING8: Final = 0xA1
SYMBOL8: Final = 0xA3
BINARY32: Final = 0xB0
STRING32: Final = 0xB1
SYMBOL32: Final = 0xB3
LIST8: Final = 0xC0
MAP8: Final = 0xC1
LIST32: Final = 0xD0
MAP32: Final = 0xD1
ARRAY8: Final = 0xE0
ARRAY32: Final = 0xF0

UNKNOWN: Final = -1
VARIABLE8: Final = -2
VARIABLE32: Final = -3
COMPOUND8: Final = -4
COMPOUND32: Final = -5
NESTED8: Final = -6
NESTED32: Final = -7
"""Widths that are in the value itself: of binaries and texts, of lists and maps, and of arrays."""

ZERO_WIDTH_MAX: Final = 16
"""Most elements of an array whose elements take no bytes: only their number would determine their memory.

The specification sets no bound; no client is known to send such arrays.
"""

_WIDTHS: Final = (0, 1, 2, 4, 8, 16, VARIABLE8, VARIABLE32, COMPOUND8, COMPOUND32, NESTED8, NESTED32)
"""Bytes of a value by the first half of its format code, beginning with 4 (section 1.2)."""

_CODES: Final[dict[str, bytes]] = {
    values.NULL: b"\x40",
    values.BOOLEAN: b"\x41\x42\x56",
    values.UBYTE: b"\x50",
    values.USHORT: b"\x60",
    values.UINT: b"\x43\x52\x70",
    values.ULONG: b"\x44\x53\x80",
    values.BYTE: b"\x51",
    values.SHORT: b"\x61",
    values.INT: b"\x54\x71",
    values.LONG: b"\x55\x81",
    values.FLOAT: b"\x72",
    values.DOUBLE: b"\x82",
    values.DECIMAL32: b"\x74",
    values.DECIMAL64: b"\x84",
    values.DECIMAL128: b"\x94",
    values.CHAR: b"\x73",
    values.TIMESTAMP: b"\x83",
    values.UUID: b"\x98",
    values.BINARY: b"\xa0\xb0",
    values.STRING: b"\xa1\xb1",
    values.SYMBOL: b"\xa3\xb3",
    values.LIST: b"\x45\xc0\xd0",
    values.MAP: b"\xc1\xd1",
    values.ARRAY: b"\xe0\xf0",
}


def _kinds() -> list[str]:
    kinds = [""] * 256
    for kind, codes in _CODES.items():
        for code in codes:
            kinds[code] = kind
    return kinds


def _widths() -> list[int]:
    return [_WIDTHS[(code >> 4) - 4] if KINDS[code] else UNKNOWN for code in range(256)]


KINDS: Final[list[str]] = _kinds()
"""Name of the type by format code; empty if there is none."""
WIDTHS: Final[list[int]] = _widths()
"""Bytes of a value by format code, without the code; negative for the constants above."""


def codes_of(*kinds: str) -> bytes:
    """Return 256 bytes: 1 for the format codes of these types and of null, otherwise 0."""
    codes = bytearray(256)
    codes[NULL] = 1
    for kind in kinds:
        for code in _CODES[kind]:
            codes[code] = 1
    return bytes(codes)


UNFIT: Final = -1

_SHORT: Final = 64
"""Longest text that is checked in place."""
_HIGH_BITS: Final = -0x7F7F7F7F7F7F7F80
"""The highest bit of each of eight bytes, as a signed integer."""
_LAST_HIGH_BITS: Final[list[int]] = [
    0,
    0x80,
    0x8080,
    0x808080,
    0x80808080,
    0x8080808080,
    0x808080808080,
    0x80808080808080,
]
"""The highest bit of each of the last bytes, by their number."""

_KEYS: Final = codes_of(
    *(
        *(values.BOOLEAN, values.UBYTE, values.USHORT, values.UINT, values.ULONG, values.BYTE, values.SHORT),
        *(values.INT, values.LONG, values.FLOAT, values.DOUBLE, values.DECIMAL32, values.DECIMAL64),
        *(values.DECIMAL128, values.CHAR, values.TIMESTAMP, values.UUID, values.BINARY, values.STRING, values.SYMBOL),
    )
)
"""Format codes of scalars, which may be keys of a map."""


def value_end(data: bytes, pos: i64, end: i64, depth: i64 = 1) -> i64:
    """Return the end of the value at `pos`; `UNFIT` if it is malformed, or extends beyond `end`.

    The value lies `depth` deep.
    """
    while True:
        if pos >= end:
            return UNFIT
        code: i64 = data[pos]
        pos += 1
        if code != DESCRIBED:
            return plain_end(data, pos, end, code, depth)
        if depth > NESTING_MAX:
            return UNFIT
        depth += 1
        pos = value_end(data, pos, end, depth)  # the descriptor
        if pos == UNFIT:
            return UNFIT


def plain_end(data: bytes, pos: i64, end: i64, code: i64, depth: i64) -> i64:
    """Return the end of a value whose format code lies before `pos`; as `value_end`."""
    width: i64 = WIDTHS[code]
    if width >= 0:
        if width > end - pos:
            return UNFIT
        if code == BOOLEAN and data[pos] > 1:
            return UNFIT
        if code == CHAR and not _is_character(data, pos):
            return UNFIT
        if code == LIST0 and depth > NESTING_MAX:
            return UNFIT
        return pos + width
    if width == VARIABLE8 or width == VARIABLE32:
        return _variable_end(data, pos, end, code)
    if width == UNKNOWN or depth > NESTING_MAX:
        return UNFIT
    start = content_start(pos, width)
    stop = content_stop(data, pos, end, width)
    if stop == UNFIT:
        return UNFIT
    count = content_count(data, pos, width)
    if code == ARRAY8 or code == ARRAY32:
        return _elements_end(data, start, stop, count, depth)
    if count > stop - start:
        return UNFIT
    return _items_end(data, start, stop, count, code == MAP8 or code == MAP32, depth)


def content_start(pos: i64, width: i64) -> i64:
    """Return the start of the elements of a list, map or array, whose size lies at `pos`."""
    if width == COMPOUND8 or width == NESTED8:
        return pos + 2
    return pos + 8


def content_stop(data: bytes, pos: i64, end: i64, width: i64) -> i64:
    """Return the end of a list, map or array; `UNFIT` if it has no room for its count, or extends beyond `end`."""
    if width == COMPOUND8 or width == NESTED8:
        if end - pos < 2:
            return UNFIT
        size: i64 = data[pos]
        if size < 1 or size > end - pos - 1:
            return UNFIT
        return pos + 1 + size
    if end - pos < 8:
        return UNFIT
    size = u32(data, pos)
    if size < 4 or size > end - pos - 4:
        return UNFIT
    return pos + 4 + size


def content_count(data: bytes, pos: i64, width: i64) -> i64:
    """Return the count of elements of a list, map or array, whose size lies at `pos`."""
    if width == COMPOUND8 or width == NESTED8:
        count: i64 = data[pos + 1]
        return count
    return u32(data, pos + 4)


def _items_end(data: bytes, pos: i64, stop: i64, count: i64, is_map: bool, depth: i64) -> i64:
    """Walk over the elements of a list or map; return `stop` if they end there."""
    if is_map and count & 1:
        return UNFIT
    index: i64 = 0
    while index < count:
        if is_map and not index & 1 and (pos >= stop or not _KEYS[data[pos]]):
            return UNFIT
        pos = value_end(data, pos, stop, depth + 1)
        if pos == UNFIT:
            return UNFIT
        index += 1
    if pos != stop:
        return UNFIT
    return stop


def _elements_end(data: bytes, pos: i64, stop: i64, count: i64, depth: i64) -> i64:
    """Walk over the constructor and the elements of an array; return `stop` if they end there."""
    if count == 0 and pos == stop:
        return stop
    inner = depth + 1
    if pos >= stop:
        return UNFIT
    while data[pos] == DESCRIBED:
        if inner > NESTING_MAX:
            return UNFIT
        pos = value_end(data, pos + 1, stop, depth + 1)
        if pos == UNFIT or pos >= stop:
            return UNFIT
        inner += 1
    code: i64 = data[pos]
    pos += 1
    width: i64 = WIDTHS[code]
    if width == UNKNOWN or (width == 0 and count > ZERO_WIDTH_MAX) or (width != 0 and count > stop - pos):
        return UNFIT
    index: i64 = 0
    while index < count:
        pos = plain_end(data, pos, stop, code, depth + 1)
        if pos == UNFIT:
            return UNFIT
        index += 1
    if pos != stop:
        return UNFIT
    return stop


def _variable_end(data: bytes, pos: i64, end: i64, code: i64) -> i64:
    """Return the end of a binary, string or symbol, whose size lies at `pos`."""
    start = pos + 1
    if code < 0xB0:
        if pos >= end:
            return UNFIT
        size: i64 = data[pos]
    else:
        if end - pos < 4:
            return UNFIT
        size = u32(data, pos)
        start = pos + 4
    if size > end - start:
        return UNFIT
    stop = start + size
    if code == STRING8 or code == STRING32:
        if not is_ascii(data, start, stop) and not is_utf8(data[start:stop]):
            return UNFIT
    elif code == SYMBOL8 or code == SYMBOL32:
        if not is_ascii(data, start, stop):
            return UNFIT
    return stop


def is_ascii(data: bytes, start: i64, stop: i64) -> bool:
    """Return whether bytes are ASCII. Texts of messages are short: they are checked in place, eight bytes at a time."""
    size = stop - start
    if size > _SHORT or stop < 8:
        return data[start:stop].isascii()
    high_bits: i64 = _HIGH_BITS  # Too large for the compiler's short integers: converted once.
    while stop - start >= 8:
        if read_i64_be(data, start) & high_bits != 0:
            return False
        start += 8
    rest: i64 = _LAST_HIGH_BITS[stop - start]
    return read_i64_be(data, stop - 8) & rest == 0


def is_utf8(octets: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    if octets.isascii():
        return True
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_character(data: bytes, pos: i64) -> bool:
    number = u32(data, pos)
    return number <= 0x10FFFF and not 0xD800 <= number < 0xE000


def u32(data: bytes, pos: i64) -> i64:
    """Return an unsigned integer of four bytes."""
    if pos >= 4:  # The lower half of the eight bytes that end with it.
        return read_i64_be(data, pos - 4) & 0xFFFFFFFF
    return i64(read_i32_be(data, pos)) & 0xFFFFFFFF


ANNOTATION_KEYS: Final = codes_of(values.SYMBOL, values.ULONG)
"""Format codes of the keys of annotations (section 3.2.10); they include null, which is no key."""
STRING_KEYS: Final = codes_of(values.STRING)
"""Format codes of the keys of application-properties (section 3.2.5)."""


def map_end(data: bytes, pos: i64, end: i64, keys: bytes, depth: i64) -> i64:
    """Return the end of the map at `pos`; `UNFIT` if there is no map or it is malformed.

    A map is malformed if it has a key of another type, or a duplicate key (section 1.6.23).
    """
    if pos >= end:
        return UNFIT
    code: i64 = data[pos]
    if code != MAP8 and code != MAP32:
        return UNFIT
    width: i64 = WIDTHS[code]
    stop = content_stop(data, pos + 1, end, width)
    if stop == UNFIT:
        return UNFIT
    count = content_count(data, pos + 1, width)
    pos = content_start(pos + 1, width)
    if count & 1 or count > stop - pos:
        return UNFIT
    first = pos
    entries = count
    seen: i64 = 0
    are_alike = False
    while count > 0:
        if pos >= stop or data[pos] == 0x40 or not keys[data[pos]]:
            return UNFIT
        head: i64 = 5 if data[pos] >= BINARY32 else 2
        begin = pos + head
        pos = value_end(data, pos, stop, depth + 1)
        if pos == UNFIT:
            return UNFIT
        last: i64 = data[pos - 1]
        middle: i64 = data[(begin + pos) >> 1] if begin < pos else 0
        mark: i64 = 1 << ((last + 7 * middle + pos - begin) % 61)  # Equal keys have equal marks.
        are_alike = are_alike or seen & mark != 0
        seen |= mark
        pos = value_end(data, pos, stop, depth + 1)
        if pos == UNFIT:
            return UNFIT
        count -= 2
    if pos != stop or (are_alike and _has_key_twice(data, first, stop, entries)):
        return UNFIT
    return stop


def _has_key_twice(data: bytes, pos: i64, stop: i64, count: i64) -> bool:
    """Return whether two keys are equal, in a well-formed content of a map that begins at `pos`."""
    found: set[tuple[int, bytes]] = set()
    while count > 0:
        code: i64 = data[pos]
        after = value_end(data, pos, stop)
        if code & 0xE0 == 0xA0:  # A symbol, string or binary, in a short or a long form.
            key = (int(code & 0xEF), data[pos + 2 : after] if code < 0xB0 else data[pos + 5 : after])
        else:
            key = (int(code), data[pos + 1 : after])
        if key in found:
            return True
        found.add(key)
        pos = value_end(data, after, stop)
        count -= 2
    return False


def value_at(data: bytes, pos: i64, end: i64, key: bytes) -> i64:
    """Return the position of the value of a symbol or string in the map at `pos`; `UNFIT` if there is none.

    The map is well formed. A key over 255 bytes is not found.
    """
    width: i64 = WIDTHS[data[pos]]
    stop = content_stop(data, pos + 1, end, width)
    count = content_count(data, pos + 1, width)
    pos = content_start(pos + 1, width)
    size: i64 = len(key)
    while count > 0:
        code: i64 = data[pos]
        after = value_end(data, pos, stop)
        start = pos + 2
        if code != SYMBOL8 and code != STRING8:
            start = pos + 5
        if after - start == size and (code & 0xEF == SYMBOL8 or code & 0xEF == STRING8):
            if data[start:after] == key:
                return after
        pos = value_end(data, after, stop)
        count -= 2
    return UNFIT


TRACE: Final = (b"traceparent", b"tracestate", b"baggage")
"""Keys without "x-" that other clients write into annotations."""


def reserved_key(data: bytes, pos: i64, end: i64) -> i64:
    """Return the position of the first reserved key of the well-formed annotations at `pos`; `UNFIT` if there is none.

    All ulong keys are reserved, and symbols that do not begin with "x-" (section 3.2.10), except the symbols of W3C's
    trace context.
    """
    width: i64 = WIDTHS[data[pos]]
    stop = content_stop(data, pos + 1, end, width)
    count = content_count(data, pos + 1, width)
    pos = content_start(pos + 1, width)
    while count > 0:
        code: i64 = data[pos]
        after = value_end(data, pos, stop)
        start = pos + 2 if code == SYMBOL8 else pos + 5
        if code & 0xEF != SYMBOL8:
            return pos
        if (after < start + 2 or data[start] != 0x78 or data[start + 1] != 0x2D) and data[start:after] not in TRACE:
            return pos
        pos = value_end(data, after, stop)
        count -= 2
    return UNFIT


def text_at(data: bytes, pos: i64) -> str | None:
    """Return the string or symbol at `pos` of well-formed bytes; None for another value."""
    code: i64 = data[pos]
    if code & 0xEF != SYMBOL8 and code & 0xEF != STRING8:
        return None
    size: i64 = data[pos + 1]
    start = pos + 2
    if code != SYMBOL8 and code != STRING8:
        size = u32(data, pos + 1)
        start = pos + 5
    return data[start : start + size].decode()


def entries_of(data: bytes, pos: i64, end: i64) -> list[tuple[bytes, bytes]]:
    """Return key and value of each entry of the well-formed map at `pos`, both as bytes."""
    width: i64 = WIDTHS[data[pos]]
    stop = content_stop(data, pos + 1, end, width)
    count = content_count(data, pos + 1, width)
    pos = content_start(pos + 1, width)
    entries: list[tuple[bytes, bytes]] = []
    while count > 0:
        middle = value_end(data, pos, stop)
        after = value_end(data, middle, stop)
        entries.append((data[pos:middle], data[middle:after]))
        pos = after
        count -= 2
    return entries


def map_octets(entries: list[tuple[bytes, bytes]]) -> bytes:
    """Return a map of encoded keys and values."""
    content = b"".join([key + value for key, value in entries])
    count = 2 * len(entries)
    if len(content) <= 254 and count <= 255:
        return bytes((MAP8, len(content) + 1, count)) + content
    return bytes((MAP32,)) + (len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + content
