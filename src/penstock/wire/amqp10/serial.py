"""Serial numbers: delivery-ids, transfer-ids and delivery-counts have 32 bits and begin again at 0 (RFC 1982).

Two numbers are compared by their distance, which must be below 2^31.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

_MASK: Final = 0xFFFFFFFF
_HALF: Final = 0x80000000


def serial_add(number: i64, count: i64) -> i64:
    """Return the number that lies `count` after another; `count` may be negative."""
    return (number + count) & _MASK


def serial_distance(first: i64, second: i64) -> i64:
    """Return how far the second number lies after the first; negative if it lies before it."""
    return (((second - first) & _MASK) ^ _HALF) - _HALF
