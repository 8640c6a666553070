"""Python values of AMQP 1.0 types, serial numbers, and the error of the codec.

A value has the equivalent Python type, if there is one. Other values carry their AMQP type, so that an annotation or a
property is written with the type with which it was read:

| AMQP | Python | AMQP | Python |
|---|---|---|---|
| null, boolean | None, bool | list, map | list, dict |
| long | int | array | `Array` |
| double | float | described | `Described` |
| binary, string | bytes, str | symbol | `Symbol` |

All other types are `Typed`: ubyte, ushort, uint, ulong, byte, short, int, float, char (one character), timestamp
(milliseconds since the epoch), uuid and decimals (bytes, opaque). Fields of composites have their type in the tables of
`spec`, and so are plain: symbols there are `str`, integers `int`.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.errors import PenstockError
from penstock.texts import worded

NULL: Final = "null"
BOOLEAN: Final = "boolean"
UBYTE: Final = "ubyte"
USHORT: Final = "ushort"
UINT: Final = "uint"
ULONG: Final = "ulong"
BYTE: Final = "byte"
SHORT: Final = "short"
INT: Final = "int"
LONG: Final = "long"
FLOAT: Final = "float"
DOUBLE: Final = "double"
DECIMAL32: Final = "decimal32"
DECIMAL64: Final = "decimal64"
DECIMAL128: Final = "decimal128"
CHAR: Final = "char"
TIMESTAMP: Final = "timestamp"
UUID: Final = "uuid"
BINARY: Final = "binary"
STRING: Final = "string"
SYMBOL: Final = "symbol"
LIST: Final = "list"
MAP: Final = "map"
ARRAY: Final = "array"
"""Names of the primitive types (section 1.6)."""

UNSIGNED: Final[dict[str, int]] = {UBYTE: 1, USHORT: 2, UINT: 4, ULONG: 8}
"""Bytes of unsigned integers."""
SIGNED: Final[dict[str, int]] = {BYTE: 1, SHORT: 2, INT: 4, LONG: 8, TIMESTAMP: 8}
"""Bytes of signed integers."""
OPAQUE: Final[dict[str, int]] = {UUID: 16, DECIMAL32: 4, DECIMAL64: 8, DECIMAL128: 16}
"""Bytes of types that are not decoded."""

PLAIN: Final = frozenset({NULL, BOOLEAN, LONG, DOUBLE, BINARY, STRING, LIST, MAP, ARRAY})
"""Types whose Python value needs no mark."""


class Symbol:
    """A symbol: ASCII text that names something."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: Final = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Symbol({self.text!r})"


class Typed:
    """A value with the AMQP type that its Python type does not determine."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: object) -> None:
        self.kind: Final = kind
        """Name of the AMQP type."""
        self.value: Final = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Typed) and self.kind == other.kind and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.kind, self.value))

    def __str__(self) -> str:
        if isinstance(self.value, bytes):
            return f"{self.kind} 0x{self.value.hex()}"
        return f"{self.kind} {worded(self.value)}"

    def __repr__(self) -> str:
        return f"{self.kind}({self.value!r})"


class Described:
    """A value with a descriptor, which defines its meaning (section 1.3)."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: object, value: object) -> None:
        self.descriptor: Final = descriptor
        """A ulong or a symbol; the specification reserves other types."""
        self.value: Final = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Described) and self.descriptor == other.descriptor and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.descriptor, self.value))

    def __str__(self) -> str:
        return f"{worded(self.value)} described by {worded(self.descriptor)}"

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


class Array:
    """Values of one type, each as in a composite: a symbol is `str`, every integer `int`.

    All values have the same `descriptors`, the outermost first; nearly always there are none.
    """

    __slots__ = ("kind", "values", "descriptors")

    def __init__(self, kind: str, values: list[object], descriptors: tuple[object, ...] = ()) -> None:
        self.kind: Final = kind
        self.values: Final = values
        self.descriptors: Final = descriptors

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Array)
            and self.kind == other.kind
            and self.values == other.values
            and self.descriptors == other.descriptors
        )

    def __hash__(self) -> int:
        raise TypeError("an array may change, and so has no hash")

    def __str__(self) -> str:
        return f"array of {self.kind} {worded(self.values)}"

    def __repr__(self) -> str:
        described = f", {self.descriptors!r}" if self.descriptors else ""
        return f"Array({self.kind!r}, {self.values!r}{described})"


def ulong(number: int) -> Typed:
    """Return a ulong."""
    return Typed(ULONG, number)


def uint(number: int) -> Typed:
    """Return a uint."""
    return Typed(UINT, number)


def timestamp(milliseconds: int) -> Typed:
    """Return a timestamp: milliseconds since the epoch."""
    return Typed(TIMESTAMP, milliseconds)


def tagged(kind: str, value: object) -> object:
    """Return a plain value of an AMQP type so that it carries its type."""
    if kind in PLAIN:
        return value
    if kind == SYMBOL and isinstance(value, str):
        return Symbol(value)
    return Typed(kind, value)


DECODE_ERROR: Final = "amqp:decode-error"
"""The bytes are not the expected value."""
INVALID_FIELD: Final = "amqp:invalid-field"
"""A mandatory field is missing, or a value is out of its range."""
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
"""The specification does not have this type or composite."""
FRAMING_ERROR: Final = "amqp:connection:framing-error"
"""The bytes are not a frame."""


class CodecError(PenstockError):
    """Bytes that are not valid AMQP 1.0, or a value that AMQP 1.0 cannot carry.

    `reason` describes the fault in one sentence, `condition` is the error condition to close with.
    """

    def __init__(self, reason: str, condition: str = DECODE_ERROR) -> None:
        super().__init__(reason, condition)
        self.reason = reason
        self.condition = condition

    def __str__(self) -> str:
        return self.reason


_MASK: Final = 0xFFFFFFFF
_HALF: Final = 0x80000000


def serial_add(number: i64, count: i64) -> i64:
    """Return the number that lies `count` after another; `count` may be negative."""
    return (number + count) & _MASK


def serial_distance(first: i64, second: i64) -> i64:
    """Return how far the second number lies after the first; negative if it lies before."""
    return (((second - first) & _MASK) ^ _HALF) - _HALF
