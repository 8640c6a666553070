"""Neutral values as those of AMQP 1.0 and back, and headers that AMQP 0-9-1 can carry."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.field_table import check_table
from penstock.wire.amqp091.codec import encode_table
from penstock.wire.amqp10.neutral_values import (
    milliseconds_of,
    moment_of,
    neutral_table,
    symbol_or_text,
    to_amqp10,
    to_neutral,
    uuid_text,
)
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Array, Described, Symbol, Typed, timestamp, uint, ulong
from tests.profiles import examples
from tests.support import amqp091_strategies, amqp10_strategies

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MOMENT_MS = 1767323045000


@pytest.mark.parametrize(
    ("value", "neutral"),
    [
        (Symbol("a"), "a"),
        ("ü", "ü"),
        (b"\xff", b"\xff"),
        (uint(5), 5),
        (Typed("byte", -5), -5),
        (ulong(2**63), str(2**63)),
        (ulong(2**63 - 1), 2**63 - 1),
        (Typed("float", 1.5), 1.5),
        (Typed("char", "x"), "x"),
        (Typed("uuid", bytes(range(16))), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (Typed("decimal32", b"\x01\x02\x03\x04"), "01020304"),
        (timestamp(MOMENT_MS + 999), MOMENT),
        (timestamp(-1000), -1),
        (None, None),
        (True, True),
        ([Symbol("a"), [uint(1)]], ["a", [1]]),
        ({Symbol("a"): uint(1), ulong(5): None, b"k": 1}, {"a": 1, "5": None, "k": 1}),
        ({"k" * 256: 1, "ü" * 128: 1, "k" * 255: 2}, {"k" * 255: 2}),
        (Array("symbol", ["a"]), ["a"]),
        (Array("timestamp", [MOMENT_MS]), [MOMENT]),
        (Described(Symbol("x"), uint(1)), 1),
    ],
)
def test_amqp10_type_has_its_neutral_value(value: object, neutral: object) -> None:
    assert to_neutral(value) == neutral


@pytest.mark.parametrize(
    ("neutral", "value"),
    [
        ("a" * 300, "a" * 300),
        (5, 5),
        (2**63, str(2**63)),
        (MOMENT, timestamp(MOMENT_MS)),
        (Decimal("1.5"), "1.5"),
        ([1, MOMENT], [1, timestamp(MOMENT_MS)]),
        ({"a": 1, "ü": 2}, {Symbol("a"): 1, "ü": 2}),
        (bytearray(b"a"), b"a"),
        (None, None),
    ],
)
def test_neutral_value_has_an_amqp10_type(neutral: object, value: object) -> None:
    assert to_amqp10(neutral) == value


@settings(max_examples=examples(500))
@given(amqp10_strategies.application_properties)
def test_application_properties_make_headers_that_amqp091_can_carry(entries: dict[object, object]) -> None:
    table = neutral_table(entries)
    check_table(table)
    encode_table(table)


@settings(max_examples=examples(500))
@given(st.dictionaries(st.text(max_size=5), amqp10_strategies.anything, max_size=3))
def test_amqp10_value_makes_a_header_that_amqp091_can_carry(entries: dict[object, object]) -> None:
    encode_table(neutral_table(entries))


@settings(max_examples=examples(300))
@given(amqp091_strategies.values)
def test_neutral_value_can_be_encoded(value: object) -> None:
    encode_value(to_amqp10(value))


def test_value_nested_too_deep_is_omitted() -> None:
    value: object = []
    for _ in range(31):
        value = [value]
    encode_table(neutral_table({"deep": value}))


def test_parts() -> None:
    assert moment_of(10**18) == 10**15
    assert milliseconds_of(datetime(1970, 1, 1, 0, 0, 1, 500_000)) == 1500  # noqa: DTZ001
    assert uuid_text(bytes(16)) == "00000000-0000-0000-0000-000000000000"
    assert symbol_or_text("a") == Symbol("a")
    assert symbol_or_text("ü") == "ü"
