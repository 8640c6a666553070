"""Fields in place: each type, and where the cursor stops."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode
from penstock.wire.amqp10.field_cursor import ABSENT, NONE, FieldCursor, malformed
from penstock.wire.amqp10.values import CodecError


def at(octets: str) -> FieldCursor:
    """Return a cursor at the first of these fields."""
    fields = bytes.fromhex(octets)
    data = b"\x00\x53\x13\xc0" + bytes((len(fields) + 1, 9)) + fields
    cursor = FieldCursor()
    assert cursor.open(data, 0, len(data)) == spec.FLOW
    cursor.enter()
    cursor.left = 1
    return cursor


@pytest.mark.parametrize(
    "octets", ["00 53 18 45", "00 80 0000000000000018 45", "00 a3 0f 616d71703a636c6f73653a6c697374 45"]
)
def test_descriptor_is_read_in_every_form(octets: str) -> None:
    data = bytes.fromhex(octets)
    cursor = FieldCursor()
    assert cursor.open(data, 0, len(data)) == spec.CLOSE
    cursor.enter()
    assert cursor.is_finished()
    assert cursor.pos == len(data)


def test_unknown_descriptor_is_none_and_a_malformed_one_an_error() -> None:
    cursor = FieldCursor()
    assert cursor.open(bytes.fromhex("00a3017845"), 0, 5) == NONE
    for octets in ("", "00", "40", "4545", "0053", "00a30578"):
        with pytest.raises(CodecError):
            FieldCursor().open(bytes.fromhex(octets), 0, len(octets) // 2)


@pytest.mark.parametrize(("octets", "value"), [("43", 0), ("52ff", 255), ("70ffffffff", 2**32 - 1), ("40", ABSENT)])
def test_uint(octets: str, value: int) -> None:
    cursor = at(octets)
    assert cursor.uint() == value
    assert cursor.is_finished()


@pytest.mark.parametrize(("octets", "value"), [("41", 1), ("42", 0), ("5601", 1), ("5600", 0), ("40", ABSENT)])
def test_boolean(octets: str, value: int) -> None:
    cursor = at(octets)
    assert cursor.boolean() == value
    assert cursor.is_finished()


def test_ubyte_has_a_largest_value() -> None:
    assert at("5001").ubyte(1) == 1
    cursor = at("5002")
    assert cursor.ubyte(1) == ABSENT
    assert cursor.malformed


def test_binary_and_any_value_have_an_extent() -> None:
    for octets in ("a0026162", "b0000000026162"):
        cursor = at(octets)
        cursor.binary(2)
        assert cursor.data[cursor.start : cursor.stop] == b"ab"
        cursor = at(octets)
        cursor.any()
        assert cursor.data[cursor.start : cursor.stop].hex() == octets
        cursor = at(octets)
        cursor.binary(1)
        assert cursor.malformed
    cursor = at("40")
    cursor.any()
    assert (cursor.start, cursor.stop) == (0, 0)


@pytest.mark.parametrize("octets", ["a10161", "70ffff", "52", "5602", "50", "b0ff", "46", ""])
def test_field_of_another_type_or_cut_is_malformed_and_those_after_it_are_absent(octets: str) -> None:
    for read in (FieldCursor.uint, FieldCursor.boolean):
        cursor = at(octets)
        cursor.left = 3
        assert read(cursor) == ABSENT
        assert cursor.malformed
        assert (cursor.uint(), cursor.boolean(), cursor.ubyte(9)) == (ABSENT, ABSENT, ABSENT)
        cursor.binary(9)
        cursor.any()
        assert not cursor.is_finished()


def test_delivery_states() -> None:
    for code in (spec.ACCEPTED, spec.RELEASED):
        cursor = at(encode(code).hex())
        cursor.delivery_state()
        assert (cursor.state_code, cursor.state) == (code, None)
    state = composite(spec.REJECTED, error=composite(spec.ERROR, condition="amqp:not-found"))
    cursor = at(encode(spec.REJECTED, error=composite(spec.ERROR, condition="amqp:not-found")).hex())
    cursor.delivery_state()
    assert (cursor.state_code, cursor.state) == (spec.REJECTED, state)
    cursor = at("00a3017845")
    cursor.delivery_state()
    assert cursor.state_code == NONE
    cursor = at("005310c00201a10161")
    cursor.delivery_state()
    assert cursor.malformed


@pytest.mark.parametrize("fields", ["45", "c00100", "c0020140", "d00000000400000000"])
def test_state_without_fields_has_no_value_in_any_form(fields: str) -> None:
    cursor = at("005325" + fields)
    cursor.delivery_state()
    assert (cursor.state_code, cursor.state, cursor.malformed) == (spec.REJECTED, None, False)


@pytest.mark.parametrize("octets", ["605324", "515300", "a0025324", "00532441", "00532440", "005324c00101"])
def test_state_of_another_form_is_malformed(octets: str) -> None:
    cursor = at(octets)
    cursor.delivery_state()
    assert cursor.malformed


def test_composite_finds_the_words_for_an_error() -> None:
    data = encode(spec.DETACH, handle=0)[:-1] + b"\x41"
    assert str(malformed(data, 0, len(data))).startswith("detach: handle: it must be of type uint, not a boolean")
    assert str(malformed(encode(spec.CLOSE), 0, 4)) == "close: malformed"


def test_state_that_comes_again_is_not_read_again() -> None:
    octets = encode(spec.TRANSACTIONAL_STATE, txn_id=b"one")
    other = encode(spec.TRANSACTIONAL_STATE, txn_id=b"two")
    cursor = FieldCursor()
    found = []
    for each in (octets, octets, other, encode(spec.ACCEPTED), octets):
        data = encode(spec.FLOW, next_outgoing_id=0, incoming_window=0, outgoing_window=0)[:3] + b"\xc0"
        data += bytes([len(each) + 1, 1]) + each
        cursor.open(data, 0, len(data))
        cursor.enter()
        cursor.delivery_state()
        found.append(cursor.state)
    assert found[0] is found[1]
    assert found[0] == found[4] == composite(spec.TRANSACTIONAL_STATE, txn_id=b"one")
    assert (found[2], found[3]) == (composite(spec.TRANSACTIONAL_STATE, txn_id=b"two"), None)
