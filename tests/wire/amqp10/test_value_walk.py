"""Values in place, against the reader that builds them."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.wire.amqp10.value_reader import ValueReader
from penstock.wire.amqp10.value_walk import UNFIT, is_ascii, is_utf8, u32, value_end
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import CodecError
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
def test_walk_and_reader_agree_when_an_octet_is_changed(value: object, at: int, octet: int) -> None:
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
def test_walk_and_reader_agree_on_any_octets(octets: list[int]) -> None:
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
