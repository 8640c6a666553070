"""Format codes: the octet before each value, which tells its type and size (section 1.6)."""

from __future__ import annotations

from typing import Final

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
"""Widths that the value itself tells: of binaries and texts, of lists and maps, and of arrays."""

ZERO_WIDTH_MAX: Final = 16
"""Most elements of an array whose elements take no octets: their number alone would decide how much memory they need.

The specification sets no bound; no client is known to send such arrays.
"""

_WIDTHS: Final = (0, 1, 2, 4, 8, 16, VARIABLE8, VARIABLE32, COMPOUND8, COMPOUND32, NESTED8, NESTED32)
"""Octets of a value by the first half of its format code, beginning with 4 (section 1.2)."""

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
"""Octets of a value by format code, without the code; negative for the constants above."""


def codes_of(*kinds: str) -> bytes:
    """Return 256 octets: 1 for the format codes of these types and of null, else 0."""
    codes = bytearray(256)
    codes[NULL] = 1
    for kind in kinds:
        for code in _CODES[kind]:
            codes[code] = 1
    return bytes(codes)
