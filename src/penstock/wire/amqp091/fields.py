"""Fields of AMQP 0-9-1, decoded and encoded: integers, strings and typed values (section 4.2.5).

Field tables follow the practice of RabbitMQ and its clients, which differs from the specification's grammar
(https://www.rabbitmq.com/amqp-0-9-1-errata, section 3): `s` is a signed 16-bit integer, `l` and `L` are both signed
64-bit integers, and `x` is a byte array.

Every read is bounded by the end of the data and, inside a table or an array, by its end: malformed data raises only
`CodecError`. Tables and arrays nest at most 32 deep, so that no input can exhaust the stack.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from penstock.content.field_table import NESTING_MAX
from penstock.errors import CODES, PenstockError
from penstock.markers import override
from penstock.texts import worded
from penstock.wire.amqp091.spec import ReplyCode


class CodecError(PenstockError):
    """Bytes that are not valid AMQP 0-9-1, or a value that AMQP 0-9-1 cannot carry.

    `reason` describes the fault in one sentence, `code` is the reply code to close the connection with. The AMQP 1.0
    condition and HTTP status are the code's.
    """

    def __init__(self, reason: str, code: ReplyCode = ReplyCode.FRAME_ERROR) -> None:
        super().__init__(reason, code)
        self.reason = reason
        self.code = code

    @property
    def condition(self) -> str:
        """AMQP 1.0 error condition."""
        return CODES[self.code].condition

    @property
    def http_status(self) -> int:
        """HTTP status."""
        return CODES[self.code].http_status

    def __str__(self) -> str:
        return self.reason


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP_MAX: Final = 253_402_300_799
"""9999-12-31T23:59:59Z in seconds since the epoch, the last value of a datetime."""


class FieldReader:
    """Decoder of consecutive fields of `data`, from `pos` to the end."""

    __slots__ = ("_end", "data", "pos")

    def __init__(self, data: bytes, pos: int = 0) -> None:
        if pos < 0 or pos > len(data):
            raise CodecError(f"position {pos} is outside the payload of {len(data)} bytes")
        self.data = data
        self.pos: i64 = pos
        self._end: i64 = len(data)

    def remaining(self) -> int:
        """Bytes left."""
        return int(self._end - self.pos)

    def _skip(self, size: i64, what: str) -> i64:
        """Skip some bytes; return the position of the first."""
        start = self.pos
        if size > self._end - start:
            raise CodecError(f"{what} needs {int(size)} bytes where {int(self._end - start)} are left")
        self.pos = start + size
        return start

    def _take(self, size: i64, what: str) -> bytes:
        start = self._skip(size, what)
        return self.data[start : start + size]

    def octet(self) -> int:
        """An unsigned 8-bit integer."""
        return self.data[self._skip(1, "an octet")]

    def short(self) -> int:
        """An unsigned 16-bit integer."""
        return int(i64(read_i16_be(self.data, self._skip(2, "a short integer"))) & 0xFFFF)

    def long(self) -> int:
        """An unsigned 32-bit integer."""
        return int(i64(read_i32_be(self.data, self._skip(4, "a long integer"))) & 0xFFFFFFFF)

    def longlong(self) -> int:
        """An unsigned 64-bit integer."""
        return int(read_i64_be(self.data, self._skip(8, "a long long integer"))) & _UINT64_MAX

    def shortstr(self) -> str:
        """A string of at most 255 bytes of UTF-8."""
        octets = self._take(self.octet(), "a short string")
        try:
            return octets.decode()
        except UnicodeDecodeError:
            raise CodecError("a short string is not UTF-8") from None

    def longstr(self) -> bytes:
        """A string of bytes; its length comes first, in 32 bits."""
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

    def _enter(self, what: str, depth: int) -> i64:
        """Limit reading to a table or array; returns the former end, for the caller to restore."""
        if depth > NESTING_MAX:
            raise CodecError(f"{what} lies more than {NESTING_MAX} deep", ReplyCode.SYNTAX_ERROR)
        size: i64 = self.long()
        outer = self._end
        if self.pos + size > outer:
            raise CodecError(f"{what} of {int(size)} bytes is longer than the {int(outer - self.pos)} bytes left")
        self._end = self.pos + size
        return outer

    def value(self, depth: int) -> object:
        """A typed value in a table or array at nesting depth `depth`."""
        kind = self.octet()
        if kind == 83:  # S; not always text, although the specification requires UTF-8
            octets = self._take(self.long(), "a long string")
            try:
                return octets.decode()
            except UnicodeDecodeError:
                return octets
        if kind == 73:  # I
            return int(read_i32_be(self.data, self._skip(4, "an integer")))
        if kind == 116:  # t
            return self.octet() != 0
        if kind == 108 or kind == 76:  # l L
            return int(read_i64_be(self.data, self._skip(8, "an integer")))
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
        raise CodecError(f"a field value has the unknown type {worded(bytes([kind]))}", ReplyCode.SYNTAX_ERROR)

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


class TolerantFieldReader(FieldReader):
    """Decoder of field tables that leaves out entries whose name is not UTF-8, and counts them."""

    __slots__ = ("left_out",)

    def __init__(self, data: bytes, pos: int = 0) -> None:
        super().__init__(data, pos)
        self.left_out: i64 = 0

    @override
    def table(self, depth: int = 1) -> dict[str, object]:
        outer = self._enter("a table", depth)
        table: dict[str, object] = {}
        while self.pos < self._end:
            octets = self._take(self.octet(), "a short string")
            value = self.value(depth)
            try:
                table[octets.decode()] = value
            except UnicodeDecodeError:
                self.left_out += 1
        self._end = outer
        return table


def _float(layout: str, octets: bytes) -> float:
    value: float = struct.unpack(layout, octets)[0]
    return value


_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_UINT32_MAX: Final = (1 << 32) - 1
_UINT64_MAX: Final = (1 << 64) - 1


def unfit(what: str, value: object) -> CodecError:
    """Return the error for a value of the broker that AMQP 0-9-1 cannot carry as `what`."""
    return CodecError(f"{worded(value)} does not fit {what}", ReplyCode.SYNTAX_ERROR)


def write_unsigned(out: bytearray, value: object, size: int) -> None:
    """Append an unsigned integer of `size` bytes."""
    if not isinstance(value, int) or value < 0 or value >> (8 * size):
        raise unfit(f"an unsigned integer of {8 * size} bits", value)
    out += value.to_bytes(size, "big")


def write_shortstr(out: bytearray, value: object) -> None:
    """Append a short string: at most 255 bytes of UTF-8."""
    octets = shortstr_octets(value)
    out.append(len(octets))
    out += octets


def shortstr_octets(value: object) -> bytes:
    """Return the bytes of a short string, without their number. Raises CodecError for more than 255."""
    if not isinstance(value, str):
        raise unfit("a short string", value)
    octets = _utf8(value)
    if len(octets) > 255:
        raise CodecError(f"{worded(value[:60])}… has {len(octets)} bytes, a short string 255", ReplyCode.SYNTAX_ERROR)
    return octets


def write_longstr(out: bytearray, value: object) -> None:
    """Append a long string; text is written as UTF-8."""
    if isinstance(value, str):
        octets = _utf8(value)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        octets = bytes(value)
    else:
        raise unfit("a long string", value)
    write_unsigned(out, len(octets), 4)
    out += octets


def write_table(out: bytearray, table: object, depth: int = 1) -> None:
    """Append a field table, itself lying `depth` deep."""
    if not isinstance(table, dict):
        raise unfit("a table", table)
    start = _begin(out, depth)
    for name, value in table.items():
        write_shortstr(out, name)
        write_value(out, value, depth)
    _finish(out, start)


def write_value(out: bytearray, value: object, depth: int) -> None:
    """Append a typed value of a table or array that lies `depth` deep.

    str → S, bool → t, int → I or l (the smaller that fits), dict → F, list and tuple → A, None → V, datetime → T
    (seconds; without a zone it is taken for UTC), float → d, bytes → x, Decimal → D.
    """
    if isinstance(value, str):
        out += b"S"
        write_longstr(out, value)
    elif isinstance(value, bool):
        out += b"t\x01" if value else b"t\x00"
    elif isinstance(value, int):
        _write_int(out, value)
    elif isinstance(value, dict):
        out += b"F"
        write_table(out, value, depth + 1)
    elif isinstance(value, (list, tuple)):
        out += b"A"
        start = _begin(out, depth + 1)
        for item in value:
            write_value(out, item, depth + 1)
        _finish(out, start)
    elif value is None:
        out += b"V"
    else:
        _write_rare_value(out, value)


def _write_rare_value(out: bytearray, value: object) -> None:
    if isinstance(value, datetime):
        out += b"T"
        write_unsigned(out, epoch_seconds(value), 8)
    elif isinstance(value, float):
        out += b"d"
        out += struct.pack(">d", value)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        out += b"x"
        write_longstr(out, value)
    elif isinstance(value, Decimal):
        _write_decimal(out, value)
    else:
        raise unfit("a field table", value)


def epoch_seconds(moment: datetime) -> int:
    """Whole seconds since the epoch; a moment without a zone is taken for UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - EPOCH
    return passed.days * 86400 + passed.seconds


def _write_int(out: bytearray, value: int) -> None:
    if _INT32_MIN <= value <= _INT32_MAX:
        out += b"I"
        out += value.to_bytes(4, "big", signed=True)
    elif _INT64_MIN <= value <= _INT64_MAX:
        out += b"l"
        out += value.to_bytes(8, "big", signed=True)
    else:
        raise unfit("a signed integer of 64 bits", value)


def _write_decimal(out: bytearray, value: Decimal) -> None:
    if not value.is_finite():
        raise unfit("a decimal", value)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # a character only for values that are not finite
    if len(digits) > 10 or exponent > 9 or exponent < -255:
        raise unfit("a decimal", value)
    unscaled = 0
    for digit in digits:
        unscaled = unscaled * 10 + digit
    if exponent > 0:
        unscaled *= 10**exponent
    if sign:
        unscaled = -unscaled
    if not _INT32_MIN <= unscaled <= _INT32_MAX:
        raise unfit("a decimal", value)
    out += b"D"
    out.append(max(-exponent, 0))
    out += unscaled.to_bytes(4, "big", signed=True)


def _begin(out: bytearray, depth: int) -> int:
    """Reserve the size field of a table or array; returns the start of its content."""
    if depth > NESTING_MAX:
        raise CodecError(f"a table or array lies more than {NESTING_MAX} deep", ReplyCode.SYNTAX_ERROR)
    out += b"\x00\x00\x00\x00"
    return len(out)


def _finish(out: bytearray, start: int) -> None:
    size = len(out) - start
    if size > _UINT32_MAX:
        raise CodecError(f"a table or array of {size} bytes is too large", ReplyCode.SYNTAX_ERROR)
    out[start - 4 : start] = size.to_bytes(4, "big")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # lone surrogates
        raise unfit("UTF-8", text) from None


def encode_shortstr(text: str) -> bytes:
    """Encode a short string. Raises `CodecError` for a text that is too long: names are checked when they arrive."""
    encoded = text.encode()
    if len(encoded) > 255:
        raise unfit("a short string", text)
    return bytes([len(encoded)]) + encoded
