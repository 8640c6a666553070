"""Maps in place: the type of their keys, lookup, and entries."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_walk import (
    ANNOTATION_KEYS,
    STRING_KEYS,
    UNFIT,
    entries_of,
    map_end,
    map_octets,
    text_at,
    value_at,
)
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Symbol, ulong
from tests.profiles import examples
from tests.support import amqp10_strategies


@settings(max_examples=examples(300))
@given(amqp10_strategies.annotations, amqp10_strategies.octets)
def test_annotations_end_where_they_were_written(entries: dict[Any, Any], after: bytes) -> None:
    data = encode_value(entries)
    assert map_end(data + after, 0, len(data + after), ANNOTATION_KEYS, 2) == len(data)
    assert map_end(data, 0, len(data) - 1, ANNOTATION_KEYS, 2) == UNFIT


@pytest.mark.parametrize("key", ["a", 1, b"a", True, None])
def test_keys_of_another_type_do_not_fit(key: object) -> None:
    data = encode_value({key: 1})
    assert map_end(data, 0, len(data), ANNOTATION_KEYS, 2) == UNFIT
    assert (map_end(data, 0, len(data), STRING_KEYS, 2) == UNFIT) == (key != "a")


@pytest.mark.parametrize(
    "octets", ["", "40", "45", "c0 01 00", "c1 02 01 40", "c1 04 04 a100 40", "c1 05 02 a100 40 40"]
)
def test_what_is_no_map_does_not_fit(octets: str) -> None:
    data = bytes.fromhex(octets)
    assert map_end(data, 0, len(data), STRING_KEYS, 2) == UNFIT


@settings(max_examples=examples(300))
@given(amqp10_strategies.annotations, st.sampled_from(["x-opt-a", "a" * 300, ""]))
def test_value_is_found_by_its_key(entries: dict[Any, Any], name: str) -> None:
    entries[Symbol(name)] = "here"
    data = encode_value(entries)
    at = value_at(data, 0, len(data), name.encode())
    assert decode_value(data, at)[0] == "here"
    for key, value in entries.items():
        if isinstance(key, Symbol):
            assert decode_value(data, value_at(data, 0, len(data), key.text.encode()))[0] == value
    assert value_at(data, 0, len(data), b"no such key in this map") == UNFIT


def test_text_of_a_string_or_symbol() -> None:
    for text in ("", "ü", "x" * 300):
        data = encode_value(text)
        assert text_at(data, 0) == text
    data = encode_value(Symbol("s" * 300))
    assert text_at(data, 0) == "s" * 300
    assert text_at(encode_value(b"a"), 0) is None
    assert text_at(encode_value(ulong(5)), 0) is None


@settings(max_examples=examples(300))
@given(amqp10_strategies.annotations)
def test_entries_are_the_octets_of_keys_and_values(entries: dict[Any, Any]) -> None:
    data = encode_value(entries)
    found = entries_of(data, 0, len(data))
    assert {decode_value(key)[0]: decode_value(value)[0] for key, value in found} == entries
    assert map_octets(found) == data
    many = [(encode_value(Symbol(str(number))), b"\x40") for number in range(200)]
    assert len(entries_of(map_octets(many), 0, len(map_octets(many)))) == 200
