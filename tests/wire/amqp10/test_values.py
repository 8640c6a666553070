"""Python values that carry their AMQP type, and decoding of arbitrary bytes.

Arbitrary bytes are read or raise CodecError, with memory in proportion to their number. Also: serial numbers.
"""

from __future__ import annotations

import pickle
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.wire.amqp10 import values
from penstock.wire.amqp10.composite import Composite, decode_composite, encode_composite
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.values import (
    DECODE_ERROR,
    FRAMING_ERROR,
    Array,
    CodecError,
    Described,
    Symbol,
    Typed,
    serial_add,
    serial_distance,
    tagged,
    timestamp,
    uint,
    ulong,
)
from tests.profiles import examples
from tests.support import amqp10_strategies


def test_equal_values_of_other_types_differ() -> None:
    assert Symbol("a") != "a"
    assert uint(5) != ulong(5)
    assert uint(5) != 5
    assert uint(5) == Typed("uint", 5)
    assert Described(ulong(1), 2) == Described(ulong(1), 2) != Described(ulong(2), 2)
    assert Array("uint", [1]) == Array("uint", [1]) != Array("ulong", [1])
    assert Array("uint", [1]) != Array("uint", [1], (ulong(3),))


def test_symbols_and_typed_values_are_keys_of_a_dict_and_arrays_are_not() -> None:
    found: dict[object, int] = {Symbol("a"): 1, "a": 2, uint(1): 3, ulong(1): 4, Described(ulong(1), 1): 5}
    assert [found[key] for key in (Symbol("a"), "a", uint(1), ulong(1), Described(ulong(1), 1))] == [1, 2, 3, 4, 5]
    with pytest.raises(TypeError, match="no hash"):
        hash(Array("uint", []))


def test_value_is_marked_only_if_its_python_type_is_ambiguous() -> None:
    assert tagged(values.LONG, 5) == 5
    assert tagged(values.STRING, "a") == "a"
    assert tagged(values.SYMBOL, "a") == Symbol("a")
    assert tagged(values.TIMESTAMP, 5) == timestamp(5)
    assert tagged(values.CHAR, "a") == Typed("char", "a")


def test_values_say_their_type_to_people() -> None:
    assert repr(Symbol("a")) == "Symbol('a')"
    assert str(Symbol("a")) == "a"
    assert repr(uint(5)) == "uint(5)"
    assert repr(Described(ulong(1), None)) == "Described(ulong(1), None)"
    assert repr(Array("uint", [1])) == "Array('uint', [1])"


def read_all_ways(data: bytes) -> None:
    for read in (decode_value, decode_composite):
        with suppress(CodecError):
            read(data)
    with suppress(CodecError):
        Sections().walk(data, 0, len(data))


@settings(max_examples=examples(2000))
@given(amqp10_strategies.composites, st.integers(0, 10_000), st.binary(min_size=1, max_size=3))
def test_composite_that_is_changed_is_read_or_refused(value: Composite, at: int, octets: bytes) -> None:
    data = bytearray(encode_composite(value))
    at %= len(data)
    data[at : at + len(octets)] = octets
    read_all_ways(bytes(data))


@settings(max_examples=examples(500))
@given(amqp10_strategies.composites)
def test_composite_that_is_cut_is_refused(value: Composite) -> None:
    data = encode_composite(value)
    for end in range(len(data)):
        with pytest.raises(CodecError):
            decode_composite(data[:end])


@settings(max_examples=examples(1500))
@given(st.binary(max_size=60))
@example(b"\x00" * 60)
@example(b"\x00\x53\x70\xc0\xff\xff")
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    read_all_ways(data)
    read_all_ways(b"\x00\x53" + data)


@pytest.mark.parametrize(
    "data",
    [
        b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
        b"\xd0\x00\x00\xff\xfc\x00\x00\xff\xf8" + b"\x45" * 0xFFF8,
        b"\xd0\x00\x00\xff\xfc\x00\x00\x55\x52" + b"\xc1\x01\x00" * 0x5552,
        b"\xd0\x00\x00\xff\xfe\x00\x00\x3f\xfe" + b"\xe0\x02\x10\x40" * 0x3FFE,
        b"\xd0\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xb0\xff\xff\xff\xff",
    ],
)
def test_memory_is_in_proportion_to_the_bytes(data: bytes) -> None:
    tracemalloc.start()
    try:
        with suppress(CodecError):
            decode_value(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 128 * len(data) + 16_384


def test_error_has_a_reason_and_a_condition() -> None:
    error = CodecError("it is broken")
    assert (str(error), error.condition) == ("it is broken", DECODE_ERROR)
    assert isinstance(error, PenstockError)
    framing = pickle.loads(pickle.dumps(CodecError("a frame of 3 bytes", FRAMING_ERROR)))
    assert (framing.reason, framing.condition) == ("a frame of 3 bytes", FRAMING_ERROR)


NUMBERS = st.integers(0, 2**32 - 1)


@given(NUMBERS, st.integers(-(2**31), 2**31 - 1))
def test_distance_is_the_added_count(number: int, count: int) -> None:
    after = serial_add(number, count)
    assert 0 <= after < 2**32
    assert serial_distance(number, after) == count


def test_numbers_begin_again_at_0() -> None:
    assert serial_add(2**32 - 1, 1) == 0
    assert serial_add(0, -1) == 2**32 - 1
    assert serial_distance(2**32 - 1, 0) == 1
    assert serial_distance(0, 2**32 - 1) == -1
    assert serial_distance(5, 5) == 0
