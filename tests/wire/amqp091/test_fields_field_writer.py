"""Field tables to octets: every type that RabbitMQ and its clients use."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from pamqp import decode as pamqp_decode

from penstock.wire.amqp091.codec import CodecError, decode_table, encode_table
from tests.support import amqp091_strategies


@given(amqp091_strategies.tables)
def test_table_comes_back_as_it_went_out(table: dict[str, object]) -> None:
    data = encode_table(table)
    assert decode_table(data, 0) == (table, len(data))


@given(amqp091_strategies.tables)
def test_pamqp_reads_the_same_from_our_tables(table: dict[str, object]) -> None:
    data = encode_table(table)
    assert pamqp_decode.field_table(data) == (len(data), table)


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (True, "74 01"),
        (2**31 - 1, "49 7fffffff"),
        (2**31, "6c 0000000080000000"),
        (-(2**31), "49 80000000"),
        (-(2**31) - 1, "6c ffffffff7fffffff"),
        (1.5, "64 3ff8000000000000"),
        ("ü", "53 00000002 c3bc"),
        (b"\x00", "78 00000001 00"),
        (bytearray(b"\x01"), "78 00000001 01"),
        (memoryview(b"\x02"), "78 00000001 02"),
        (Decimal("-1.23"), "44 02 ffffff85"),
        (Decimal("2E+3"), "44 00 000007d0"),
        (datetime(1970, 1, 1, 0, 0, 1), "54 0000000000000001"),  # noqa: DTZ001  without a zone it is UTC
        (datetime(1970, 1, 1, 0, 0, 1, 999999, tzinfo=UTC), "54 0000000000000001"),
        (None, "56"),
        ((1,), "41 00000005 49 00000001"),
    ],
)
def test_every_type_of_value_is_written(value: object, octets: str) -> None:
    assert encode_table({"v": value})[4:] == b"\x01v" + bytes.fromhex(octets)


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal(2**31),
        Decimal("1E+10"),
        Decimal("1E-256"),
        Decimal(12345678901),
        datetime(1969, 12, 31, tzinfo=UTC),
        "\udcff",
        {1: "a name that is no text"},
        {"n" * 256: 1},
        {1, 2},
        object(),
    ],
)
def test_value_that_no_table_can_hold_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        encode_table({"v": value})


def test_not_a_number_is_a_number_on_the_wire() -> None:
    value = decode_table(encode_table({"v": math.nan}), 0)[0]["v"]
    assert isinstance(value, float)
    assert math.isnan(value)
