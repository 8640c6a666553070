"""Whatever arrives, the codec reads it or raises CodecError, and memory is in proportion to what arrived."""

from __future__ import annotations

import pickle
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.wire.amqp10.composite import Composite, decode_composite, encode_composite
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.values import DECODE_ERROR, FRAMING_ERROR, CodecError
from tests.profiles import examples
from tests.support import amqp10_strategies


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
def test_any_octets_are_read_or_refused(data: bytes) -> None:
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
def test_memory_is_in_proportion_to_the_octets(data: bytes) -> None:
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
    framing = pickle.loads(pickle.dumps(CodecError("a frame of 3 octets", FRAMING_ERROR)))
    assert (framing.reason, framing.condition) == ("a frame of 3 octets", FRAMING_ERROR)
