"""Flows in place, against the composite that the table describes."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, decode_performative, encode
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.transfer import Flow, write_flow
from tests.profiles import examples
from tests.support import amqp10_strategies
from tests.support.amqp10_in_place import changed, numbers, read_both_ways
from tests.support.amqp10_wide import widened
from tests.support.frame_splitter import FrameSplitter

ARGUMENTS = amqp10_strategies.arguments(spec.COMPOSITES[spec.FLOW])
SESSION = ("next_incoming_id", "incoming_window", "next_outgoing_id", "outgoing_window")
LINK = ("handle", "delivery_count", "link_credit", "available")
UINTS = amqp10_strategies.uints
OPTIONAL = UINTS | st.just(ABSENT)


def compare(data: bytes) -> None:
    """Read a flow both ways: what one refuses the other refuses with the same words."""
    both = read_both_ways(Flow(), spec.FLOW, data)
    if both is not None:
        found, table, _ = both
        assert numbers(found, *SESSION, *LINK) == numbers(table)
        assert (found.drain, found.echo) == (table.flag("drain"), table.flag("echo"))
        assert repr(found.properties) == repr(table.fields["properties"])  # A changed octet may make it not a number.


@settings(max_examples=examples(1000))
@given(ARGUMENTS, st.sampled_from([b"", b"\x40"]))
def test_flow_in_place_is_that_of_the_table(arguments: dict[str, Any], after: bytes) -> None:
    data = encode(spec.FLOW, **arguments)
    compare(data + after)
    compare(widened(data) + after)


@settings(max_examples=examples(1500))
@given(ARGUMENTS, st.integers(3, 10_000), st.binary(min_size=1, max_size=2))
def test_flow_that_is_changed_is_refused_by_both_or_read_by_both(
    arguments: dict[str, Any], at: int, octets: bytes
) -> None:
    for data in changed(encode(spec.FLOW, **arguments), at, octets):
        compare(data)


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
