"""The property list of a content header, in place: validation, and the position of each property.

Every publish passes here, so no objects are built: the properties are scanned once and stay encoded. Whoever looks for
a property walks with `property_end`; `properties.py` decodes all of them.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.content.field_table import NESTING_MAX

FIXED_OCTETS: Final = 12
"""Class, weight and body size, before the property flags (AMQP 0-9-1 section 4.2.6.1)."""

FLAGS_AT: Final = 7 + FIXED_OCTETS
"""Octets of a header frame before its property flags."""

UNFIT: Final = -1
HEADERS_FLAG: Final = 1 << 13
"""The flag of the headers table (section 1.8.1)."""

_NO_MEANING: Final = 0b11
"""Bit 0 would continue the flags in a second word, bit 1 is unassigned: neither exists in class basic."""

SHORTSTR: Final = -1
TABLE: Final = -2
SIZES: Final[list[int]] = [SHORTSTR, SHORTSTR, TABLE, 1, 1, *([SHORTSTR] * 4), 8, *([SHORTSTR] * 4)]
"""Octets of each property in flag order, the highest bit first."""

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
    """Return the size of each type of field value: octets, or one of the constants above (section 4.2.1)."""
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
    """Return the flags at `pos`; `UNFIT` unless the octets from there up to `end` are exactly one property list.

    A headers table is checked too: a malformed one would be delivered to consumers, which cannot refuse it.
    """
    if end - pos < 2:
        return UNFIT
    found: i64 = (data[pos] << 8) | data[pos + 1]
    flags = found
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
    # As two returns: a conditional expression of the two would make an object of the flags.
    if pos != end:
        return UNFIT
    return found


def table_fits(data: bytes, pos: i64, end: i64, depth: i64) -> bool:
    """Return whether the octets from `pos` up to `end` are the entries of a field table, itself lying `depth` deep."""
    while pos < end:
        pos += 1 + i64(data[pos])
        if pos >= end:
            return False
        pos = _value_end(data, pos, end, depth)
        if pos == UNFIT:
            return False
    return pos == end


def _value_end(data: bytes, pos: i64, end: i64, depth: i64) -> i64:
    """Return where the typed value at `pos` ends; `UNFIT` if it is none, or goes beyond `end`."""
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
    """Return where the property at `pos` ends; `UNFIT` if it goes beyond `end`.

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

    Both are an index in the order of the flags; neither needs to be present.
    """
    end: i64 = len(data)
    while index < to:
        if flags & (0x8000 >> index):
            pos = property_end(data, pos, end, index)
        index += 1
    return pos


def property_at(content: bytes, index: i64) -> i64:
    """Return the position of a property in a content whose header was found to be well formed; 0 if it is absent."""
    flags = flags_of(content)
    if not flags & (0x8000 >> index):
        return 0
    return skip_properties(content, FLAGS_AT + 2, flags, 0, index)


def _u32(data: bytes, pos: i64) -> i64:
    return (i64(data[pos]) << 24) | (data[pos + 1] << 16) | (data[pos + 2] << 8) | data[pos + 3]


def flags_of(content: bytes) -> i64:
    """Return the property flags of a message whose header was found to be well formed."""
    return (content[FLAGS_AT] << 8) | content[FLAGS_AT + 1]
