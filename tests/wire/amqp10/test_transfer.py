"""Transfers in place, against the composite that the table describes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, decode_performative, encode
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.transfer import (
    TRANSFER_OVERHEAD,
    Transfer,
    delivery_head,
    write_continuation,
    write_delivery,
    write_delivery_head,
)
from tests.profiles import examples
from tests.support import amqp10_strategies
from tests.support.amqp10_in_place import changed, numbers, read, read_both_ways, states
from tests.support.amqp10_wide import widened
from tests.support.fields import fields_of
from tests.support.frame_splitter import FrameSplitter

ARGUMENTS = amqp10_strategies.arguments(spec.COMPOSITES[spec.TRANSFER])


def compare(data: bytes, before: bytes = b"") -> None:
    """Read a transfer both ways, and after another one: what one refuses the other refuses with the same words."""
    both = read_both_ways(Transfer(), spec.TRANSFER, data)
    usual = Transfer()
    assert not before or usual.read_usual(before, 0, len(before))
    if usual.read_usual(data, 0, len(data)):
        assert fields_of(usual) == fields_of(both[0])
    if both is not None:
        found, table, payload = both
        assert found.payload == payload
        assert numbers(found, "handle", "delivery_id", "message_format", "rcv_settle_mode") == numbers(table)
        tag = table.fields["delivery_tag"]
        assert (found.tag_start == 0) == (tag is None)
        assert data[found.tag_start : found.tag_stop] == (tag or b"")
        assert found.settled == {None: ABSENT, False: 0, True: 1}[table.fields["settled"]]  # type: ignore[index]
        for name in ("more", "resume", "aborted", "batchable"):
            assert getattr(found, name) == table.flag(name)
        assert repr(states(found)) == repr(states(table))  # A changed octet may make it not a number.


@settings(max_examples=examples(1000))
@given(ARGUMENTS, st.binary(max_size=20))
def test_transfer_in_place_is_that_of_the_table(arguments: dict[str, Any], payload: bytes) -> None:
    data = encode(spec.TRANSFER, **arguments)
    compare(data + payload)
    compare(widened(data) + payload)


@settings(max_examples=examples(1500))
@given(ARGUMENTS, st.integers(3, 10_000), st.binary(min_size=1, max_size=2))
def test_transfer_that_is_changed_is_refused_by_both_or_read_by_both(
    arguments: dict[str, Any], at: int, octets: bytes
) -> None:
    for data in changed(encode(spec.TRANSFER, **arguments), at, octets):
        compare(data)


@pytest.mark.parametrize("handle", [b"\x43", b"\x52\x07", b"\x70\xff\x00\x00\x01"])
@pytest.mark.parametrize("number", [b"\x43", b"\x52\xff", b"\x70\xff\x00\x00\x01"])
@pytest.mark.parametrize("rest", [b"", b"\x43", b"\x40", b"\x43\x41", b"\x43\x42", b"\x40\x40"])
@pytest.mark.parametrize("tag", [b"\xa0\x00", b"\xa0\x04abcd", b"\xa0\x20" + bytes(32)])
def test_usual_transfer_is_read_without_a_cursor(handle: bytes, number: bytes, tag: bytes, rest: bytes) -> None:
    fields = handle + number + tag + rest
    data = b"\x00\x53\x14\xc0" + bytes([len(fields) + 1, 3 + len(rest)]) + fields + b"\x00\x53\x75\xa0\x10" + bytes(16)
    assert Transfer().read_usual(data, 0, len(data))
    compare(data)
    for at in range(len(fields) + 6):  # Each octet changed, and a list that ends too early or too late.
        for octet in (0, 0x40, 0x43, 0x52, 0x70, 0xA0, 0xFF):
            compare(data[:at] + bytes([octet]) + data[at + 1 :], data) if at > 2 else None


@settings(max_examples=examples(500))
@given(amqp10_strategies.uints, amqp10_strategies.uints, st.integers(0, 2**63 - 1), st.booleans(), st.booleans())
def test_delivery_and_continuation_are_transfers(
    handle: int, delivery_id: int, tag: int, settled: bool, more: bool
) -> None:
    out = BytesWriter()
    write_delivery(out, 7, handle, delivery_id, tag, settled, more, 3)
    out.write(b"one")
    assert len(out) <= TRANSFER_OVERHEAD + 3
    write_continuation(out, 7, handle, more, 3)
    out.write(b"two")
    first, second = FrameSplitter(1 << 20).feed(out.getvalue())
    found, start = decode_performative(first.body)
    assert first.body[start:] == b"one"
    assert found == composite(
        spec.TRANSFER,
        handle=handle,
        delivery_id=delivery_id,
        delivery_tag=tag.to_bytes(8, "big"),
        message_format=0,
        settled=settled,
        more=more,
    )
    found, start = decode_performative(second.body)
    assert second.body[start:] == b"two"
    assert found == composite(spec.TRANSFER, handle=handle, more=more)
    if not more:
        short = tag & 0x7FFFFFFFFFFF
        one, two = BytesWriter(), BytesWriter()
        write_delivery(one, 7, handle, delivery_id, short, settled, False, 3)
        write_delivery_head(two, delivery_head(handle), 7, delivery_id, short, settled, 3)
        assert two.getvalue() == one.getvalue()


def test_transfer_is_read_inside_other_octets() -> None:
    data = b"..." + encode(spec.TRANSFER, handle=5, delivery_tag=b"ab") + b"payload"
    cursor = FieldCursor()
    assert cursor.open(data, 3, len(data)) == spec.TRANSFER
    found = Transfer()
    found.read(cursor, data, 3, len(data))
    assert (found.handle, data[found.tag_start : found.tag_stop], data[found.payload :]) == (5, b"ab", b"payload")


def test_state_of_a_transfer_is_read() -> None:
    state = composite(spec.TRANSACTIONAL_STATE, txn_id=b"1", outcome=composite(spec.ACCEPTED))
    found, _ = read(Transfer(), spec.TRANSFER, encode(spec.TRANSFER, handle=0, state=state))
    assert found.state_code == spec.TRANSACTIONAL_STATE
    assert found.state.octets("txn_id") == b"1"
