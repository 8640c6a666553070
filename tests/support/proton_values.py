"""Values, composites and messages read and written again by Qpid Proton, and what it cannot carry."""

from __future__ import annotations

import uuid
from typing import Any

import cproton
import proton

from penstock.wire.amqp10 import values
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.values import Array, Described, Symbol, Typed

MESSAGE_MAX = 1 << 20
NUMBERS: dict[str, Any] = {
    values.UBYTE: proton.ubyte,
    values.USHORT: proton.ushort,
    values.UINT: proton.uint,
    values.ULONG: proton.ulong,
    values.BYTE: proton.byte,
    values.SHORT: proton.short,
    values.INT: proton.int32,
    values.FLOAT: proton.float32,
    values.CHAR: proton.char,
    values.TIMESTAMP: proton.timestamp,
}
DECIMALS: dict[str, Any] = {values.DECIMAL32: proton.decimal32, values.DECIMAL64: proton.decimal64}


def rewritten(octets: bytes) -> bytes:
    """Return a value as Proton writes it after it has read it. Raises proton.DataException."""
    data = proton.Data()
    assert data.decode(octets) == len(octets)
    return bytes(data.encode())


def rewritten_message(octets: bytes) -> bytes:
    """Return a message as Proton writes it after it has read it."""
    message = proton.Message()
    assert cproton.pn_message_decode(message._msg, octets) == 0
    size, found = cproton.pn_message_encode(message._msg, MESSAGE_MAX)
    assert size >= 0
    return bytes(found)


def object_of(octets: bytes) -> object:
    """Return the object that Proton reads, with the types of all its parts (`with_types`)."""
    data = proton.Data()
    assert data.decode(octets) == len(octets)
    data.rewind()
    assert data.next() is not None
    return with_types(data.get_object())  # Its binaries are gone with `data`.


def with_types(value: object) -> object:
    """Return an object of Proton's with the types of all its parts, which its own comparison does not see."""
    if isinstance(value, list):
        return [with_types(item) for item in value]
    if isinstance(value, proton.Described):
        return "Described", with_types(value.descriptor), with_types(value.value)
    if isinstance(value, memoryview):
        return "bytes", bytes(value)
    return type(value).__name__, value


def octets_of(found: object) -> bytes:
    """Return an object as Proton writes it."""
    data = proton.Data()
    data.put_object(found)
    return bytes(data.encode())


def as_proton(value: object) -> object:
    """Return a value without maps and arrays as an object of Proton's."""
    if isinstance(value, Typed):
        if value.kind in NUMBERS:
            return NUMBERS[value.kind](value.value)
        assert isinstance(value.value, bytes)
        if value.kind in DECIMALS:
            return DECIMALS[value.kind](int.from_bytes(value.value, "big"))
        return uuid.UUID(bytes=value.value) if value.kind == values.UUID else proton.decimal128(value.value)
    if isinstance(value, Symbol):
        return proton.symbol(value.text)
    if isinstance(value, list):
        return [as_proton(item) for item in value]
    if isinstance(value, Described):
        return proton.Described(as_proton(value.descriptor), as_proton(value.value))
    return value


def is_carried(value: object) -> bool:
    """Tell whether Proton reads and writes a value as the specification says.

    It does not know descriptors that are lists or described, nor values or arrays with two descriptors, nor an empty
    array without a constructor.
    """
    if isinstance(value, Described):
        compound = (list, dict, Array, Described)
        if isinstance(value.value, Described) or isinstance(value.descriptor, compound):
            return False
        return is_carried(value.value)
    if isinstance(value, Array):
        if len(value.descriptors) > 1 or (value.kind == values.NULL and not value.values):
            return False
        return all(is_carried(item) for item in value.values)
    if isinstance(value, Composite):
        return all(is_carried(item) for item in value.fields.values())
    if isinstance(value, dict):
        return all(is_carried(item) for item in [*value, *value.values()])
    return not isinstance(value, list) or all(is_carried(item) for item in value)
