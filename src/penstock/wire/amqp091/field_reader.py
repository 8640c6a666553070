"""Decoding of single fields: integers, strings and the typed values of field tables (section 4.2.5).

Field tables follow the practice of RabbitMQ and its clients, which differs from the specification's grammar
(https://www.rabbitmq.com/amqp-0-9-1-errata, section 3): `s` is a signed 16-bit integer, `l` and `L` are both signed
64-bit integers, and `x` is a byte array.

Every read is bounded by the end of the data and, inside a table or an array, by its end: malformed data raises
`CodecError` and nothing else. Tables and arrays nest at most 32 deep, so that no input can exhaust the stack.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from penstock.content.field_table import NESTING_MAX
from penstock.wire.amqp091.malformed import CodecError
from penstock.wire.amqp091.spec import ReplyCode

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP_MAX: Final = 253_402_300_799
"""9999-12-31T23:59:59Z in seconds since the epoch, the last value of a datetime."""


class FieldReader:
    """Decoder of consecutive fields of `data`, from `pos` to the end."""

    __slots__ = ("_end", "data", "pos")

    def __init__(self, data: bytes, pos: int = 0) -> None:
        if pos < 0 or pos > len(data):
            raise CodecError(f"position {pos} is outside the payload of {len(data)} octets")
        self.data = data
        self.pos = pos
        self._end = len(data)

    def remaining(self) -> int:
        """Octets left."""
        return self._end - self.pos

    def _take(self, size: int, what: str) -> bytes:
        start = self.pos
        stop = start + size
        if stop > self._end:
            raise CodecError(f"{what} needs {size} octets where {self._end - start} are left")
        self.pos = stop
        return self.data[start:stop]

    def octet(self) -> int:
        """An unsigned 8-bit integer."""
        return self._take(1, "an octet")[0]

    def short(self) -> int:
        """An unsigned 16-bit integer."""
        return int.from_bytes(self._take(2, "a short integer"), "big")

    def long(self) -> int:
        """An unsigned 32-bit integer."""
        return int.from_bytes(self._take(4, "a long integer"), "big")

    def longlong(self) -> int:
        """An unsigned 64-bit integer."""
        return int.from_bytes(self._take(8, "a long long integer"), "big")

    def shortstr(self) -> str:
        """A string of at most 255 octets of UTF-8."""
        octets = self._take(self.octet(), "a short string")
        try:
            return octets.decode()
        except UnicodeDecodeError:
            raise CodecError("a short string is not UTF-8") from None

    def longstr(self) -> bytes:
        """A string of octets; its length comes first, in 32 bits."""
        return self._take(self.long(), "a long string")

    def table(self, depth: int = 1) -> dict[str, object]:
        """A field table; the last value of a repeated name wins."""
        outer = self._enter("a table", depth)
        table: dict[str, object] = {}
        while self.pos < self._end:
            name = self.shortstr()
            table[name] = self.value(depth)
        self._end = outer
        return table

    def array(self, depth: int) -> list[object]:
        """A field array at nesting depth `depth`."""
        outer = self._enter("an array", depth)
        values: list[object] = []
        while self.pos < self._end:
            values.append(self.value(depth))
        self._end = outer
        return values

    def _enter(self, what: str, depth: int) -> int:
        """Limit reading to a table or array; returns the former end, for the caller to restore."""
        if depth > NESTING_MAX:
            raise CodecError(f"{what} lies more than {NESTING_MAX} deep", ReplyCode.SYNTAX_ERROR)
        size = self.long()
        outer = self._end
        if self.pos + size > outer:
            raise CodecError(f"{what} of {size} octets is longer than the {outer - self.pos} octets left")
        self._end = self.pos + size
        return outer

    def value(self, depth: int) -> object:
        """A typed value in a table or array at nesting depth `depth`."""
        kind = self.octet()
        if kind == 83:  # S; not always text, though the specification wants UTF-8
            octets = self._take(self.long(), "a long string")
            try:
                return octets.decode()
            except UnicodeDecodeError:
                return octets
        if kind == 73:  # I
            return self._signed(4)
        if kind == 116:  # t
            return self.octet() != 0
        if kind == 108 or kind == 76:  # l L
            return self._signed(8)
        if kind == 70:  # F
            return self.table(depth + 1)
        if kind == 65:  # A
            return self.array(depth + 1)
        return self._rare_value(kind)

    def _rare_value(self, kind: int) -> object:
        if kind == 86:  # V
            return None
        if kind == 84:  # T
            return self._timestamp()
        if kind == 100:  # d
            return _float(">d", self._take(8, "a double"))
        if kind == 102:  # f
            return _float(">f", self._take(4, "a float"))
        if kind == 120:  # x
            return self._take(self.long(), "a byte array")
        if kind == 68:  # D
            return self._decimal()
        if kind == 98:  # b
            return self._signed(1)
        if kind == 66:  # B
            return self.octet()
        if kind == 115:  # s
            return self._signed(2)
        if kind == 117:  # u
            return self.short()
        if kind == 105:  # i
            return self.long()
        raise CodecError(f"a field value has the unknown type {bytes([kind])!r}", ReplyCode.SYNTAX_ERROR)

    def _signed(self, size: int) -> int:
        return int.from_bytes(self._take(size, "an integer"), "big", signed=True)

    def _timestamp(self) -> object:
        """Seconds as a datetime; a value past the year 9999, usually milliseconds by mistake, stays a number."""
        seconds = self.longlong()
        if seconds > _TIMESTAMP_MAX:
            return seconds
        return EPOCH + timedelta(seconds=seconds)

    def _decimal(self) -> Decimal:
        places = self.octet()
        unscaled = self._signed(4)
        sign = 1 if unscaled < 0 else 0
        return Decimal((sign, tuple(int(digit) for digit in str(abs(unscaled))), -places))


def _float(layout: str, octets: bytes) -> float:
    value: float = struct.unpack(layout, octets)[0]
    return value
