"""Qpid Proton as a second opinion about values, composites and messages, and about malformed bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode_composite
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import CodecError, Described, Typed
from tests.profiles import examples
from tests.support import amqp10_strategies as strategies

pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")

from tests.support.proton_values import (
    as_proton,
    is_carried,
    object_of,
    octets_of,
    rewritten,
    rewritten_message,
    with_types,
)

CODES = [0x00, 0x40, 0x41, 0x43, 0x45, 0x50, 0x52, 0x53, 0x56, 0x60, 0x70, 0x71, 0x73, 0x80, 0xA0, 0xA1, 0xA3, 0xB1]
COMPOUNDS = [0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0, 0x7F, 0xFF]
scalars = strategies.scalars.filter(lambda value: not isinstance(value, Typed) or value.kind != "float")
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.builds(Described, strategies.descriptors, inner),
    max_leaves=8,
).filter(is_carried)
"""Values without maps and arrays, whose objects Proton compares by more than their numbers."""
edits = st.lists(
    st.tuples(
        st.sampled_from("rid"), st.integers(0, 2**20), st.integers(0, 255) | st.sampled_from([*CODES, *COMPOUNDS])
    ),
    min_size=1,
    max_size=4,
)
"""Replaced, inserted and deleted octets: a position and an octet, often a format code."""


def spoilt(octets: bytes, changes: list[tuple[str, int, int]]) -> bytes:
    """Return octets with changes."""
    found = bytearray(octets)
    for kind, at, octet in changes:
        at %= len(found) + 1
        if kind == "i" or at == len(found):
            found.insert(at, octet)
        elif kind == "r":
            found[at] = octet
        else:
            del found[at]
    return bytes(found)


@settings(max_examples=examples(2000))
@given(strategies.anything)
def test_value_passes_through_proton(value: object) -> None:
    assume(is_carried(value))
    assert decode_value(rewritten(encode_value(value)))[0] == value


@settings(max_examples=examples(1000))
@given(strategies.composites)
def test_composite_passes_through_proton(found: Composite) -> None:
    assume(is_carried(found))
    assert decode_composite(rewritten(encode_composite(found)))[0] == found


@settings(max_examples=examples(1000))
@given(plain)
def test_value_is_the_same_object_to_proton_and_back(value: object) -> None:
    theirs = as_proton(value)
    assert object_of(encode_value(value)) == with_types(theirs)
    assert decode_value(octets_of(theirs))[0] == value


@given(st.floats(width=32, allow_nan=False))
def test_float_is_the_same_to_proton(number: float) -> None:
    octets = encode_value(Typed("float", number))
    assert octets == b"\x72" + struct.pack(">f", number)
    assert rewritten(octets) == octets


@settings(max_examples=examples(500))
@given(strategies.messages())
def test_message_passes_through_proton(message: dict[int, list[bytes]]) -> None:
    """Proton drops footers, takes an absent body for null, and joins no sections; 0 is absent to it."""
    message.pop(spec.FOOTER, None)
    octets = strategies.octets_of(message)
    found = sections(octets)
    assume(all(len(each) == 1 and each != [None] for code, each in found.items() if code >= spec.DATA))
    assume(is_carried([each for code in found for each in found[code]]))
    assert sections(rewritten_message(octets)) == found


def sections(octets: bytes) -> dict[int, list[object]]:
    """Return the values of sections; header and properties without fields that say nothing."""
    found: dict[int, list[object]] = {}
    pos = 0
    while pos < len(octets):
        section, end = decode_value(octets, pos)
        assert isinstance(section.descriptor, Typed)
        code = section.descriptor.value
        assert isinstance(code, int)
        value: object = section.value
        if code in (spec.HEADER, spec.PROPERTIES):
            value = said(decode_composite(octets, pos)[0])
        if value or code >= spec.DATA:
            found.setdefault(code, []).append(value)
        pos = end
    return found


def said(found: Composite) -> dict[object, object]:
    absent = composite(found.code).fields
    return {name: value for name, value in found.fields.items() if value not in (0, None) and value != absent[name]}


@settings(max_examples=examples(2000))
@given(strategies.anything.map(encode_value), edits)
def test_malformed_value_that_we_read_is_the_same_to_proton(octets: bytes, changes: list[tuple[str, int, int]]) -> None:
    octets = spoilt(octets, changes)
    try:
        value, end = decode_value(octets)
    except CodecError:
        return
    if end == len(octets) and is_carried(value):
        assert encode_value(decode_value(rewritten(octets))[0]) == encode_value(value)


@settings(max_examples=examples(2000))
@given(strategies.composites.map(encode_composite), edits)
def test_malformed_composite_that_we_read_is_the_same_to_proton(
    octets: bytes, changes: list[tuple[str, int, int]]
) -> None:
    octets = spoilt(octets, changes)
    try:
        found, end = decode_composite(octets)
    except CodecError:
        return
    if end == len(octets) and is_carried(found):
        assert encode_composite(decode_composite(rewritten(octets))[0]) == encode_composite(found)
