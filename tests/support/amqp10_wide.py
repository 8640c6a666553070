"""The largest form of every encoding, which some libraries write where they do not know a size before."""

from __future__ import annotations

import struct

from penstock.wire.amqp10 import values
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.values import OPAQUE, SIGNED, UNSIGNED, Array, Described, Symbol, Typed

CODES = {
    "ubyte": 0x50,
    "ushort": 0x60,
    "uint": 0x70,
    "ulong": 0x80,
    "byte": 0x51,
    "short": 0x61,
    "int": 0x71,
    "long": 0x81,
    "float": 0x72,
    "double": 0x82,
    "decimal32": 0x74,
    "decimal64": 0x84,
    "decimal128": 0x94,
    "char": 0x73,
    "timestamp": 0x83,
    "uuid": 0x98,
    "binary": 0xB0,
    "string": 0xB1,
    "symbol": 0xB3,
    "list": 0xD0,
    "map": 0xD1,
    "array": 0xF0,
    "boolean": 0x56,
    "null": 0x40,
}


def widened(data: bytes) -> bytes:
    """Return an encoded value in its largest form, with what lies after it."""
    value, end = decode_value(data)
    return wide(value) + data[end:]


def wide(value: object) -> bytes:
    """Return a value in its largest form."""
    if isinstance(value, Described):
        return b"\x00" + wide(value.descriptor) + wide(value.value)
    kind, plain = kind_of(value)
    return bytes((CODES[kind],)) + content(kind, plain)


def kind_of(value: object) -> tuple[str, object]:
    """Return type and plain value."""
    if isinstance(value, Typed):
        return value.kind, value.value
    if isinstance(value, Symbol):
        return values.SYMBOL, value.text
    for python, kind in (
        *((bool, values.BOOLEAN), (int, values.LONG), (float, values.DOUBLE), (str, values.STRING)),
        *((bytes, values.BINARY), (list, values.LIST), (dict, values.MAP), (Array, values.ARRAY)),
    ):
        if isinstance(value, python):
            return kind, value
    return values.NULL, None


def content(kind: str, value: object) -> bytes:
    """Return a value without its format code."""
    if kind in UNSIGNED:
        assert isinstance(value, int)
        return value.to_bytes(UNSIGNED[kind], "big")
    if kind in SIGNED:
        assert isinstance(value, int)
        return value.to_bytes(SIGNED[kind], "big", signed=True)
    if isinstance(value, bool):
        return b"\1" if value else b"\0"
    if isinstance(value, float):
        return struct.pack(">d" if kind == values.DOUBLE else ">f", value)
    if kind == values.CHAR:
        assert isinstance(value, str)
        return ord(value).to_bytes(4, "big")
    if value is None or kind in OPAQUE:
        return b"" if value is None else bytes(value)  # type: ignore[call-overload]
    if isinstance(value, (str, bytes)):
        octets = value if isinstance(value, bytes) else value.encode()
        return len(octets).to_bytes(4, "big") + octets
    if isinstance(value, list):
        return counted(len(value), b"".join(wide(item) for item in value))
    if isinstance(value, dict):
        return counted(2 * len(value), b"".join(wide(key) + wide(item) for key, item in value.items()))
    assert isinstance(value, Array)
    constructor = b"".join(b"\x00" + wide(each) for each in value.descriptors) + bytes((CODES[value.kind],))
    return counted(len(value.values), constructor + b"".join(content(value.kind, item) for item in value.values))


def counted(count: int, octets: bytes) -> bytes:
    return (len(octets) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + octets
