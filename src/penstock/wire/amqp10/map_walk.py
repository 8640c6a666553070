"""Maps in place: validation by the type of their keys, lookup of one key, and their entries as octets."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.wire.amqp10 import values
from penstock.wire.amqp10.format_codes import MAP8, MAP32, STRING8, SYMBOL8, WIDTHS, codes_of
from penstock.wire.amqp10.value_walk import UNFIT, content_count, content_start, content_stop, u32, value_end

ANNOTATION_KEYS: Final = codes_of(values.SYMBOL, values.ULONG)
"""Format codes of the keys of annotations (section 3.2.10); they include null, which is no key."""
STRING_KEYS: Final = codes_of(values.STRING)
"""Format codes of the keys of application-properties (section 3.2.5)."""


def map_end(data: bytes, pos: i64, end: i64, keys: bytes, depth: i64) -> i64:
    """Return where the map at `pos` ends; `UNFIT` if it is none, malformed, or has a key of another type."""
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
    while count > 0:
        if pos >= stop or data[pos] == 0x40 or not keys[data[pos]]:
            return UNFIT
        pos = value_end(data, pos, stop, depth + 1)
        if pos == UNFIT:
            return UNFIT
        pos = value_end(data, pos, stop, depth + 1)
        if pos == UNFIT:
            return UNFIT
        count -= 2
    if pos != stop:
        return UNFIT
    return stop


def value_at(data: bytes, pos: i64, end: i64, key: bytes) -> i64:
    """Return the position of the value that a symbol or string has in the map at `pos`; `UNFIT` if there is none.

    The map is well formed. A key over 255 octets is not found.
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
"""Keys without "x-" that others' clients write into annotations."""


def reserved_key(data: bytes, pos: i64, end: i64) -> i64:
    """Return the position of the first reserved key of the well-formed annotations at `pos`; `UNFIT` if there is none.

    All ulong keys are reserved, and symbols that do not begin with "x-" (section 3.2.10), but for those of W3C's trace
    context.
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
    """Return the string or symbol at `pos` of well-formed octets; None if there is another value."""
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
    """Return key and value of each entry of the well-formed map at `pos`, both as octets."""
    width: i64 = WIDTHS[data[pos]]
    stop = content_stop(data, pos + 1, end, width)
    count = content_count(data, pos + 1, width)
    pos = content_start(pos + 1, width)
    found: list[tuple[bytes, bytes]] = []
    while count > 0:
        middle = value_end(data, pos, stop)
        after = value_end(data, middle, stop)
        found.append((data[pos:middle], data[middle:after]))
        pos = after
        count -= 2
    return found


def map_octets(entries: list[tuple[bytes, bytes]]) -> bytes:
    """Return a map of encoded keys and values."""
    content = b"".join([key + value for key, value in entries])
    count = 2 * len(entries)
    if len(content) <= 254 and count <= 255:
        return bytes((MAP8, len(content) + 1, count)) + content
    return bytes((MAP32,)) + (len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + content
