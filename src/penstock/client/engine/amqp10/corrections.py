"""Corrections of messages of RabbitMQ 3, whose plugin breaks the specification twice (sections 3.2.10 and 3.2.4).

The plugin writes the keys of message annotations and the user-id as strings instead of symbols and a binary. The three
types have the same layout, so one byte of each is replaced.
"""

from __future__ import annotations

from typing import Final

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.field_cursor import FieldCursor
from penstock.wire.amqp10.value_walk import (
    BINARY8,
    BINARY32,
    LIST8,
    LIST32,
    MAP8,
    MAP32,
    STRING8,
    STRING32,
    SYMBOL8,
    SYMBOL32,
    UNFIT,
    value_end,
)
from penstock.wire.amqp10.values import CodecError

_BINARIES: Final = {STRING8: BINARY8, STRING32: BINARY32}
_SYMBOLS: Final = {STRING8: SYMBOL8, STRING32: SYMBOL32}
_FIRST_ITEM: Final = {LIST8: 3, MAP8: 3, LIST32: 9, MAP32: 9}
"""Bytes of the format code, the size and the count before the first item."""


def corrected(message: bytes) -> bytes:
    """Return a message with these two types corrected. Raises CodecError if its sections cannot be found."""
    out, cursor, pos = bytearray(message), FieldCursor(), 0
    while pos < len(message):
        code = cursor.open(message, pos, len(message))
        value, pos = cursor.pos, _end(message, cursor.pos, len(message))
        first = value + _FIRST_ITEM.get(message[value], pos)
        if code == spec.MESSAGE_ANNOTATIONS:
            _correct_keys(out, message, first, pos)
        elif code == spec.PROPERTIES and first < pos:
            _exchange(out, _end(message, first, pos), pos, _BINARIES)
    return bytes(out)


def _correct_keys(out: bytearray, message: bytes, pos: int, end: int) -> None:
    while pos < end:
        _exchange(out, pos, end, _SYMBOLS)
        pos = _end(message, pos, end)
        if pos < end:
            pos = _end(message, pos, end)


def _exchange(out: bytearray, pos: int, end: int, codes: dict[int, int]) -> None:
    if pos < end:
        out[pos] = codes.get(out[pos], out[pos])


def _end(message: bytes, pos: int, end: int) -> int:
    after = value_end(message, pos, end, 2)
    if after == UNFIT:
        raise CodecError("a value is malformed")
    return int(after)
