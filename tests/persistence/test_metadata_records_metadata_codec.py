"""The data of things: every value of a field table comes back exactly as it was, and damage is told."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given

from penstock.errors import StoreError
from penstock.persistence.metadata_records import VERSION, pack, table_as_json, unpack
from penstock.wire.amqp091.codec import decode_table, encode_table
from tests.support.amqp091_strategies import tables

ODD = {
    "not a number": float("nan"),
    "one with more to say": struct.unpack(">d", bytes.fromhex("7ff8000000000abc"))[0],
    "endless": float("-inf"),
    "minus nothing": -0.0,
    "whole": 5.0,
    "yes": True,
    "one": 1,
    "text": "1",
    "octets": b"1\xff",
    "nothing": None,
    "past the year 9999": 2**64 - 1,
    "half a character": "\ud800",
    "trailing zeros": Decimal("1.500"),
    "minus zero": Decimal("-0"),
    "time": datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC),
    "first": datetime(1970, 1, 1, tzinfo=UTC),
    "last": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    "tables": {"F": {"x": "00"}, "x": {"D": [{"T": 0}, [], {}]}, "": None},
}


def again(table: dict[str, object]) -> dict[str, object]:
    return unpack(pack({"arguments": table_as_json(table)})).table("arguments")


@given(tables)
def test_every_table_that_amqp_can_carry_comes_back_as_it_was(table: dict[str, object]) -> None:
    assert repr(again(table)) == repr(table)


@given(tables)
def test_table_comes_back_as_the_same_octets_on_the_wire(table: dict[str, object]) -> None:
    read, _ = decode_table(encode_table(table), 0)
    assert encode_table(again(read)) == encode_table(read)


def test_values_that_are_hard_to_tell_apart_come_back_as_what_they_were() -> None:
    assert repr(again(ODD)) == repr(ODD)
    for name in ("not a number", "one with more to say"):
        assert struct.pack(">d", again(ODD)[name]) == struct.pack(">d", ODD[name])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the record is empty"),
        (bytes([VERSION + 1]) + b"{}", f"it has format {VERSION + 1}; this version reads {VERSION}"),
        (bytes([VERSION]) + b'{"name":"a', "it is cut short or damaged"),
        (bytes([VERSION]) + b"\xff\xfe", "it is cut short or damaged"),
        (bytes([VERSION]) + b"[" * 100_000, "it is cut short or damaged"),
        (bytes([VERSION]) + b"[]", "it is damaged: it has no fields"),
    ],
)
def test_data_that_is_none_is_told(data: bytes, why: str) -> None:
    with pytest.raises(StoreError) as caught:
        unpack(data)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    "value", [{}, {"x": "0"}, {"x": 1}, {"T": "1"}, {"T": 10**30}, {"D": "1.2.3"}, {"d": "00"}, {"F": []}, {"y": "z"}]
)
def test_value_that_is_none_is_told(value: object) -> None:
    with pytest.raises(StoreError, match="a value in it is damaged"):
        unpack(pack({"arguments": {"a": [value]}})).table("arguments")


@pytest.mark.parametrize("value", [None, -1, True, 1.0, "1", 1 << 63])
def test_what_is_no_number_is_told_with_the_name_of_the_field(value: object) -> None:
    with pytest.raises(StoreError, match="field 'number' is not a non-negative integer"):
        unpack(pack({"number": value})).number("number")
