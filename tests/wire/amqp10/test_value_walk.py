"""Values in place, against the reader that builds them.

Maps in place: the type of their keys, lookup, and entries.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.wire.amqp10.value_reader import ValueReader, decode_value
from penstock.wire.amqp10.value_walk import (
    ANNOTATION_KEYS,
    STRING_KEYS,
    UNFIT,
    entries_of,
    is_ascii,
    is_utf8,
    map_end,
    map_octets,
    text_at,
    u32,
    value_at,
    value_end,
)
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import CodecError, Symbol, ulong
from tests.profiles import examples
from tests.support import amqp10_strategies
from tests.support.amqp10_wide import wide


def agree(data: bytes) -> None:
    """Compare the walk with the reader: only a map that has a key twice is well formed for the walk alone."""
    end = value_end(data, 0, len(data))
    reader = ValueReader(data)
    reason = ""
    try:
        reader.value()
    except CodecError as error:
        reason = error.reason
    if reason:
        assert end == UNFIT or "twice" in reason
    else:
        assert end == reader.pos


@settings(max_examples=examples(1000))
@given(amqp10_strategies.anything, octets := st.binary(max_size=10))
def test_value_ends_where_it_was_written(value: object, after: bytes) -> None:
    agree(wide(value))
    data = encode_value(value)
    assert value_end(data + after, 0, len(data) + len(after)) == len(data)
    assert value_end(after + data, len(after), len(after) + len(data)) == len(after) + len(data)


@settings(max_examples=examples(1000))
@given(amqp10_strategies.anything, st.integers(0, 10_000))
def test_value_that_is_cut_is_malformed(value: object, at: int) -> None:
    data = encode_value(value)
    data = data[: at % len(data)]
    assert value_end(data, 0, len(data)) == UNFIT
    agree(data)


@settings(max_examples=examples(2000))
@given(amqp10_strategies.anything, st.integers(0, 10_000), st.integers(0, 255))
def test_walk_and_reader_agree_when_a_byte_is_changed(value: object, at: int, octet: int) -> None:
    data = bytearray(encode_value(value))
    data[at % len(data)] = octet
    agree(bytes(data))


@settings(max_examples=examples(2000))
@given(
    st.lists(
        st.sampled_from(list(bytes.fromhex("00010203104041454350525356707380a0a1a3b0b1c0c1d0d1e0f0ff"))), max_size=24
    )
)
@example([0x00] * 40)
@example([0xC0, 0x02, 0x01] * 40)
@example([0xE0, 0x02, 0x11, 0x40])
@example([0xE0, 0x02, 0x10, 0x40])
@example([0xC1, 0x03, 0x02, 0x00, 0x40])
def test_walk_and_reader_agree_on_any_bytes(octets: list[int]) -> None:
    agree(bytes(octets))


def nested(depth: int, code: str) -> bytes:
    data = b"\x45" if code != "00" else b"\x40"
    for _ in range(depth - 1):
        if code == "00":
            data = b"\x00\x40" + data
        elif code == "e0":
            data = b"\xf0" + (len(data) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + data
        else:
            data = b"\xd0" + (len(data) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + data
    return data


@pytest.mark.parametrize("code", ["d0", "e0", "00"])
def test_walk_and_reader_agree_on_the_deepest_nesting(code: str) -> None:
    for depth in range(28, 38):
        agree(nested(depth, code))
    assert value_end(nested(30, code), 0, len(nested(30, code))) > 0
    assert value_end(nested(40, code), 0, len(nested(40, code))) == UNFIT


@settings(max_examples=examples(500))
@given(st.binary(max_size=10), st.text(st.characters(max_codepoint=127), max_size=80), st.integers(0, 79))
def test_ascii_is_found_at_any_place_and_of_any_length(before: bytes, text: str, at: int) -> None:
    octets = text.encode()
    data = before + octets + b"\xff"
    assert is_ascii(data, len(before), len(before) + len(octets))
    assert is_ascii(b"\xff" + octets, 1, 1 + len(octets))
    if octets:
        at %= len(octets)
        changed = octets[:at] + b"\x80" + octets[at + 1 :]
        assert not is_ascii(before + changed, len(before), len(before) + len(octets))


def test_unsigned_integers_and_texts() -> None:
    assert u32(b"\xff\xff\xff\xfe", 0) == 2**32 - 2
    assert is_utf8("ü".encode())
    assert not is_utf8(b"\xff")


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
def test_map_of_another_form_does_not_fit(octets: str) -> None:
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
def test_entries_are_the_bytes_of_keys_and_values(entries: dict[Any, Any]) -> None:
    data = encode_value(entries)
    found = entries_of(data, 0, len(data))
    assert {decode_value(key)[0]: decode_value(value)[0] for key, value in found} == entries
    assert map_octets(found) == data
    many = [(encode_value(Symbol(str(number))), b"\x40") for number in range(200)]
    assert len(entries_of(map_octets(many), 0, len(map_octets(many)))) == 200
