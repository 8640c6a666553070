"""Dispositions in place, against the composite that the table describes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, decode_performative, encode
from penstock.wire.amqp10.transfer import (
    ACCEPTED_STATE,
    NO_STATE,
    RELEASED_STATE,
    STATE_OCTETS_MAX,
    Disposition,
    write_disposition,
)
from penstock.wire.amqp10.values import CodecError
from tests.profiles import examples
from tests.support import amqp10_strategies
from tests.support.amqp10_in_place import changed, read_both_ways, states
from tests.support.amqp10_wide import widened
from tests.support.frame_splitter import FrameSplitter

ARGUMENTS = amqp10_strategies.arguments(spec.COMPOSITES[spec.DISPOSITION])


def compare(data: bytes) -> None:
    """Read a disposition both ways: what one refuses the other refuses with the same words."""
    both = read_both_ways(Disposition(), spec.DISPOSITION, data)
    if both is not None:
        found, table, _ = both
        assert (found.receiver, found.settled, found.batchable) == tuple(
            table.flag(name) for name in ("role", "settled", "batchable")
        )
        assert (found.first, found.last) == (table.number("first"), table.number("last", table.number("first")))
        assert repr(states(found)) == repr(states(table))  # A changed octet may make it not a number.


@settings(max_examples=examples(1000))
@given(ARGUMENTS, st.sampled_from([b"", b"\x40"]))
def test_disposition_in_place_is_that_of_the_table(arguments: dict[str, Any], after: bytes) -> None:
    data = encode(spec.DISPOSITION, **arguments)
    compare(data + after)
    compare(widened(data) + after)


@settings(max_examples=examples(1500))
@given(ARGUMENTS, st.integers(3, 10_000), st.binary(min_size=1, max_size=2))
def test_disposition_that_is_changed_is_refused_by_both_or_read_by_both(
    arguments: dict[str, Any], at: int, octets: bytes
) -> None:
    for data in changed(encode(spec.DISPOSITION, **arguments), at, octets):
        compare(data)


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
