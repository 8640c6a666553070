"""The content header of a publish, looked at in place: is it well formed and where does it end.

Every publish passes here, so nothing is built: the properties are walked over once and stay as they came.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

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


def property_flags(data: bytes, pos: i64, end: i64) -> i64:
    """Return the flags at `pos`; `UNFIT` unless the octets from there up to `end` are exactly one property list.

    Lengths are checked, the inside of a headers table is not: who reads it has to expect nonsense in it.
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
            size: i64 = SIZES[index]
            if size == SHORTSTR:
                if pos >= end:
                    return UNFIT
                size = 1 + i64(data[pos])
            elif size == TABLE:
                if pos + 4 > end:
                    return UNFIT
                size = 4 + ((data[pos] << 24) | (data[pos + 1] << 16) | (data[pos + 2] << 8) | data[pos + 3])
            pos += size
            if pos > end:
                return UNFIT
        flags <<= 1
        index += 1
    # As two returns: a conditional expression of the two would make an object of the flags.
    if pos != end:
        return UNFIT
    return found


def flags_of(content: bytes) -> i64:
    """Return the property flags of a message whose header was found to be well formed."""
    return (content[FLAGS_AT] << 8) | content[FLAGS_AT + 1]
