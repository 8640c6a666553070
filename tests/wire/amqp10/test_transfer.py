"""Transfers, dispositions and flows in place, against the composites that the table describes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, decode_performative, encode
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.transfer import (
    ACCEPTED_STATE,
    NO_STATE,
    RELEASED_STATE,
    STATE_OCTETS_MAX,
    TRANSFER_OVERHEAD,
    Disposition,
    Flow,
    Transfer,
    delivery_head,
    write_continuation,
    write_delivery,
    write_delivery_head,
    write_disposition,
    write_flow,
)
from penstock.wire.amqp10.values import CodecError
from tests.profiles import examples
from tests.support import amqp10_strategies
from tests.support.amqp10_in_place import changed, numbers, read, read_both_ways, states
from tests.support.amqp10_wide import widened
from tests.support.fields import fields_of
from tests.support.frame_splitter import FrameSplitter


def compare_transfer(data: bytes, before: bytes = b"") -> None:
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


@pytest.mark.parametrize("handle", [b"\x43", b"\x52\x07", b"\x70\xff\x00\x00\x01"])
@pytest.mark.parametrize("number", [b"\x43", b"\x52\xff", b"\x70\xff\x00\x00\x01"])
@pytest.mark.parametrize("rest", [b"", b"\x43", b"\x40", b"\x43\x41", b"\x43\x42", b"\x40\x40"])
@pytest.mark.parametrize("tag", [b"\xa0\x00", b"\xa0\x04abcd", b"\xa0\x20" + bytes(32)])
def test_usual_transfer_is_read_without_a_cursor(handle: bytes, number: bytes, tag: bytes, rest: bytes) -> None:
    fields = handle + number + tag + rest
    data = b"\x00\x53\x14\xc0" + bytes([len(fields) + 1, 3 + len(rest)]) + fields + b"\x00\x53\x75\xa0\x10" + bytes(16)
    assert Transfer().read_usual(data, 0, len(data))
    compare_transfer(data)
    for at in range(len(fields) + 6):  # Each octet changed, and a list that ends too early or too late.
        for octet in (0, 0x40, 0x43, 0x52, 0x70, 0xA0, 0xFF):
            compare_transfer(data[:at] + bytes([octet]) + data[at + 1 :], data) if at > 2 else None


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


def test_transfer_is_read_inside_other_bytes() -> None:
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


def compare_disposition(data: bytes) -> None:
    """Read a disposition both ways: what one refuses the other refuses with the same words."""
    both = read_both_ways(Disposition(), spec.DISPOSITION, data)
    if both is not None:
        found, table, _ = both
        assert (found.receiver, found.settled, found.batchable) == tuple(
            table.flag(name) for name in ("role", "settled", "batchable")
        )
        assert (found.first, found.last) == (table.number("first"), table.number("last", table.number("first")))
        assert repr(states(found)) == repr(states(table))  # A changed octet may make it not a number.


@settings(max_examples=examples(300))
@given(st.booleans(), amqp10_strategies.uints, amqp10_strategies.uints, st.booleans())
def test_written_disposition_is_that_of_the_table(receiver: bool, first: int, last: int, settled: bool) -> None:
    states = {ACCEPTED_STATE: composite(spec.ACCEPTED), RELEASED_STATE: composite(spec.RELEASED), NO_STATE: None}
    for octets, state in states.items():
        out = BytesWriter()
        write_disposition(out, 9, receiver, first, last, settled, octets)
        (frame,) = FrameSplitter(512).feed(out.getvalue())
        found = decode_performative(frame.body)[0]
        given_last = None if last == first else last
        assert found == composite(
            spec.DISPOSITION, role=receiver, first=first, last=given_last, settled=settled, state=state
        )


def test_state_that_does_not_fit_is_left_to_the_composite() -> None:
    with pytest.raises(CodecError):
        write_disposition(BytesWriter(), 0, True, 0, 0, True, bytes(STATE_OCTETS_MAX + 1))
    out = BytesWriter()
    largest = encode(spec.REJECTED, error=composite(spec.ERROR, condition="c" * (STATE_OCTETS_MAX - 14)))
    assert len(largest) == STATE_OCTETS_MAX
    write_disposition(out, 0, True, 2**32 - 1, 2**32 - 2, True, largest)
    (frame,) = FrameSplitter(512).feed(out.getvalue())
    assert decode_performative(frame.body)[0].inner("state") is not None


SESSION = ("next_incoming_id", "incoming_window", "next_outgoing_id", "outgoing_window")
LINK = ("handle", "delivery_count", "link_credit", "available")
UINTS = amqp10_strategies.uints
OPTIONAL = UINTS | st.just(ABSENT)


def compare_flow(data: bytes) -> None:
    """Read a flow both ways: what one refuses the other refuses with the same words."""
    both = read_both_ways(Flow(), spec.FLOW, data)
    if both is not None:
        found, table, _ = both
        assert numbers(found, *SESSION, *LINK) == numbers(table)
        assert (found.drain, found.echo) == (table.flag("drain"), table.flag("echo"))
        assert repr(found.properties) == repr(table.fields["properties"])  # A changed octet may make it not a number.


@settings(max_examples=examples(500))
@given(
    st.tuples(OPTIONAL, UINTS, UINTS, UINTS),
    st.tuples(UINTS, OPTIONAL, OPTIONAL, OPTIONAL),
    st.booleans(),
    st.booleans(),
)
def test_written_flow_is_that_of_the_table(
    session: tuple[int, ...], link: tuple[int, ...], drain: bool, echo: bool
) -> None:
    out = BytesWriter()
    write_flow(out, 3, *session, *link, drain, echo)  # type: ignore[arg-type]
    write_flow(out, 3, *session)  # type: ignore[arg-type]
    first, second = FrameSplitter(512).feed(out.getvalue())
    named = {name: None if value < 0 else value for name, value in zip(SESSION + LINK, session + link, strict=True)}
    assert decode_performative(first.body)[0] == composite(spec.FLOW, **named, drain=drain, echo=echo)
    for name in LINK:
        del named[name]
    assert decode_performative(second.body)[0] == composite(spec.FLOW, **named)


def test_session_may_be_asked_for_its_state() -> None:
    out = BytesWriter()
    write_flow(out, 0, 1, 2, 3, 4, echo=True)
    (frame,) = FrameSplitter(512).feed(out.getvalue())
    assert decode_performative(frame.body)[0].flag("echo")


AFTER = st.sampled_from([b"", b"\x40"])
COMPARED = {
    spec.TRANSFER: (compare_transfer, st.binary(max_size=20)),
    spec.DISPOSITION: (compare_disposition, AFTER),
    spec.FLOW: (compare_flow, AFTER),
}
ARGUMENTS = {code: amqp10_strategies.arguments(spec.COMPOSITES[code]) for code in COMPARED}


@pytest.mark.parametrize("code", COMPARED)
@settings(max_examples=examples(1000))
@given(st.data())
def test_performative_in_place_is_that_of_the_table(code: int, data: st.DataObject) -> None:
    compare, after = COMPARED[code]
    octets, rest = encode(code, **data.draw(ARGUMENTS[code])), data.draw(after)
    compare(octets + rest)
    compare(widened(octets) + rest)


@pytest.mark.parametrize("code", COMPARED)
@settings(max_examples=examples(1500))
@given(st.data(), st.integers(3, 10_000), st.binary(min_size=1, max_size=2))
def test_performative_that_is_changed_is_refused_by_both_or_read_by_both(
    code: int, data: st.DataObject, at: int, spoilt: bytes
) -> None:
    compare, _ = COMPARED[code]
    for octets in changed(encode(code, **data.draw(ARGUMENTS[code])), at, spoilt):
        compare(octets)
