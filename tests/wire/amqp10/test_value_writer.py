"""Values to bytes: the smallest encoding, and values out of range.

Also: fields on a writer, and sizes that are filled in later.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from librt.strings import BytesWriter

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import decode_performative
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import (
    begin_performative,
    encode_value,
    end_performative,
    put_boolean,
    put_uint,
    write_plain,
)
from penstock.wire.amqp10.values import INVALID_FIELD, Array, CodecError, Described, Symbol, Typed, uint, ulong
from tests.profiles import examples
from tests.support import amqp10_strategies
from tests.support.frame_splitter import FrameSplitter


@settings(max_examples=examples(1000))
@given(amqp10_strategies.anything)
def test_value_is_read_as_it_was_written(value: object) -> None:
    octets = encode_value(value)
    found, end = decode_value(octets)
    assert (found, end) == (value, len(octets))
    assert encode_value(found) == octets


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (uint(0), "43"),
        (uint(255), "52ff"),
        (uint(256), "7000000100"),
        (ulong(0), "44"),
        (ulong(255), "53ff"),
        (ulong(256), "800000000000000100"),
        (Typed("int", -128), "5480"),
        (Typed("int", 127), "547f"),
        (Typed("int", 128), "7100000080"),
        (Typed("int", -129), "71ffffff7f"),
        (-128, "5580"),
        (128, "810000000000000080"),
        (True, "41"),
        ("", "a100"),
        ("x" * 255, "a1ff" + "78" * 255),
        ("x" * 256, "b100000100" + "78" * 256),
        ((), "45"),
        ([None] * 254, "c0fffe" + "40" * 254),
        ([None] * 255, "d000000103000000ff" + "40" * 255),
        ({}, "c10100"),
        (Array("symbol", ["a"]), "e00401a30161"),
        (Array("uint", [0, 255]), "e004025200ff"),
        (Array("uint", [0, 256]), "e00a02700000000000000100"),
        (Array("boolean", [True]), "e0030156 01".replace(" ", "")),
        (Described(ulong(0x24), []), "00532445"),
        (bytearray(b"a"), "a00161"),
        (memoryview(b"a"), "a00161"),
    ],
)
def test_value_has_its_smallest_form(value: object, octets: str) -> None:
    assert encode_value(value).hex() == octets


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        uint(-1),
        uint(2**32),
        Typed("uint", True),
        Typed("uint", "1"),
        Typed("uuid", b"short"),
        Typed("char", "ab"),
        Typed("char", "\ud800"),
        Typed("float", 1e300),
        Typed("double", 10**400),
        Typed("timestamp", 2**63),
        Typed("no such type", 1),
        Typed("null", 1),
        Typed("boolean", 1),
        Symbol("ü"),
        "\ud800",
        object(),
        1j,
        {(): 1},
        {Described(ulong(1), 1): 1},
        Array("null", [None] * 17),
        Array("null", [1]),
        Array("boolean", [1]),
        Array("uint", [-1]),
        Array("symbol", [1]),
        Array("no such type", []),
    ],
)
def test_value_writer_refuses_values_that_do_not_fit_their_type(value: object) -> None:
    with pytest.raises(CodecError) as caught:
        encode_value(value)
    assert caught.value.condition == INVALID_FIELD


def test_value_nested_too_deep_is_refused_before_it_is_sent() -> None:
    value: object = []
    for _ in range(31):
        value = [value]
    assert decode_value(encode_value(value))[0] == value
    with pytest.raises(CodecError, match="deep"):
        encode_value([value])


def test_long_value_is_cut_in_the_text_of_the_error() -> None:
    with pytest.raises(CodecError) as caught:
        write_plain(BytesWriter(), "uint", "x" * 1000)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (ABSENT, "40"), (0, "43"), (1, "5201"), (255, "52ff"), (256, "7000000100"), (2**31, "7080000000"),
        (2**31 - 1, "707fffffff"), (2**32 - 1, "70ffffffff"),
    ],
)  # fmt: skip
def test_uint_has_its_smallest_form(value: int, octets: str) -> None:
    out = BytesWriter()
    put_uint(out, value)
    assert out.getvalue().hex() == octets


def test_boolean() -> None:
    out = BytesWriter()
    for value in (1, 0, ABSENT):
        put_boolean(out, value)
    assert out.getvalue().hex() == "414240"


def test_sizes_are_filled_in_behind_earlier_data() -> None:
    out = BytesWriter()
    out.write(b"before")
    start = begin_performative(out, 513, spec.DETACH)
    put_uint(out, 70_000)
    put_boolean(out, 1)
    end_performative(out, start, 2)
    start = begin_performative(out, 65535, spec.TRANSFER)
    put_uint(out, 3)
    end_performative(out, start, 1, 70_000)
    out.write(b"x" * 70_000)
    first, second = FrameSplitter(1 << 20).feed(out.getvalue()[6:])
    assert (first.channel, second.channel) == (513, 65535)
    assert decode_performative(first.body)[0].number("handle") == 70_000
    found, payload = decode_performative(second.body)
    assert found.number("handle") == 3
    assert second.body[payload:] == b"x" * 70_000
