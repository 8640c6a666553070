"""Octets to field tables: every type that RabbitMQ and its clients use."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from pamqp import decode as pamqp_decode
from pamqp import encode as pamqp_encode

from penstock.wire.amqp091.codec import CodecError, decode_table, encode_table
from tests.support import amqp091_strategies


@given(amqp091_strategies.tables, amqp091_strategies.octets, amqp091_strategies.octets)
def test_table_is_read_where_it_lies(table: dict[str, object], before: bytes, after: bytes) -> None:
    data = encode_table(table)
    assert decode_table(before + data + after, len(before)) == (table, len(before) + len(data))


@given(amqp091_strategies.tables)
def test_we_read_the_same_from_the_tables_of_pamqp(table: dict[str, object]) -> None:
    data = pamqp_encode.field_table(_without_what_pamqp_cannot_say(table))  # type: ignore[arg-type]
    assert decode_table(data, 0)[0] == pamqp_decode.field_table(data)[1]


def _without_what_pamqp_cannot_say(value: object) -> object:
    """pamqp cuts names at 128 octets in the middle of a character, and has no way to write some numbers."""
    if isinstance(value, dict):
        return {name[:30]: _without_what_pamqp_cannot_say(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_what_pamqp_cannot_say(inner) for inner in value]
    if isinstance(value, bytes):
        return bytearray(value)
    return None if isinstance(value, (float, Decimal)) else value


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("74 00", False),
        ("74 01", True),
        ("62 ff", -1),
        ("42 ff", 255),
        ("73 fffe", -2),
        ("75 fffe", 65534),
        ("49 fffffffd", -3),
        ("69 fffffffd", 4294967293),
        ("6c fffffffffffffffc", -4),
        ("4c fffffffffffffffc", -4),
        ("66 3fc00000", 1.5),
        ("64 bff8000000000000", -1.5),
        ("44 02 0000007b", Decimal("1.23")),
        ("44 00 ffffffff", Decimal(-1)),
        ("44 ff 00000001", Decimal((0, (1,), -255))),
        ("53 00000002 c3bc", "ü"),
        ("53 00000001 ff", b"\xff"),
        ("78 00000001 ff", b"\xff"),
        ("54 0000000000000001", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("54 0000003afff4417f", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("54 0000003afff44180", 253402300800),
        ("54 ffffffffffffffff", 2**64 - 1),
        ("56", None),
        ("41 00000000", []),
        ("41 00000003 56 7401", [None, True]),
        ("46 00000000", {}),
        ("46 00000003 016b 56", {"k": None}),
    ],
)
def test_every_type_of_value_is_read(octets: str, value: object) -> None:
    field = b"\x01v" + bytes.fromhex(octets)
    table, _ = decode_table(len(field).to_bytes(4, "big") + field, 0)
    assert table == {"v": value}
    assert type(table["v"]) is type(value)


def test_of_a_name_that_occurs_twice_the_last_value_is_kept() -> None:
    assert decode_table(bytes.fromhex("00000008 0176 7400 0176 7401"), 0)[0] == {"v": True}


def nested(depth: int, of: str) -> object:
    """A value that makes a table lie `depth` deep."""
    value: object = {}
    for _ in range(depth - 2):
        value = {"t": value} if of == "tables" else [value]
    return {"t": value}


@pytest.mark.parametrize("of", ["tables", "arrays"])
def test_tables_and_arrays_nest_32_deep_and_no_deeper(of: str) -> None:
    deepest = nested(32, of)
    assert isinstance(deepest, dict)
    assert decode_table(encode_table(deepest), 0)[0] == deepest
    with pytest.raises(CodecError, match="more than 32 deep"):
        encode_table({"t": deepest})


@pytest.mark.parametrize("depth", [33, 200, 100_000])
@pytest.mark.parametrize("kind", [b"F", b"A"])
def test_deeper_nesting_is_refused_before_the_stack_can_be_exhausted(kind: bytes, depth: int) -> None:
    name = b"\x01t" if kind == b"F" else b""
    header = len(name) + 5
    data = bytearray((header * depth + 2).to_bytes(4, "big") + b"\x01t" if kind == b"A" else b"")
    if kind == b"A":
        data[:4] = (2 + 5 * depth).to_bytes(4, "big")
    else:
        data += (header * depth).to_bytes(4, "big")
    for level in range(depth, 0, -1):
        data += name + kind + (header * (level - 1)).to_bytes(4, "big")
    with pytest.raises(CodecError, match="more than 32 deep"):
        decode_table(bytes(data), 0)
