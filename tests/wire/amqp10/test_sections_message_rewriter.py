"""Sections built anew, and all others as they were."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, decode_composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.sections import (
    Sections,
    header_octets,
    symbol_text,
    with_annotations,
)
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import CodecError, Described, Symbol, ulong
from tests.profiles import examples
from tests.support import amqp10_strategies
from tests.support.amqp10_sections import walked
from tests.support.amqp10_strategies import messages, octets_of


@settings(max_examples=examples(300))
@given(
    st.booleans(),
    st.integers(0, 255) | st.just(ABSENT),
    amqp10_strategies.uints | st.just(ABSENT),
    st.booleans(),
    st.integers(0, 1000),
)
def test_header_is_that_of_the_table(durable: bool, priority: int, ttl: int, first: bool, count: int) -> None:
    found, _ = decode_composite(header_octets(durable, priority, ttl, first, count))
    assert found == composite(
        spec.HEADER,
        durable=durable,
        priority=None if priority < 0 else priority,
        ttl=None if ttl < 0 else ttl,
        first_acquirer=first,
        delivery_count=count,
    )


@settings(max_examples=examples(500))
@given(messages(), st.dictionaries(st.sampled_from(["x-a", "x-b", "x-opt-c"]), amqp10_strategies.anything, min_size=1))
def test_annotations_are_added_and_all_other_sections_stay(
    message: dict[int, list[bytes]], added: dict[str, Any]
) -> None:
    data = octets_of(message)
    once = with_annotations(data, walked(data), {"x-a": "old"})
    changed = with_annotations(once, walked(once), added)
    found = walked(changed)
    annotations, end = decode_value(changed, int(found.message_annotations))
    before: dict[object, object] = {}
    if spec.MESSAGE_ANNOTATIONS in message:
        described = decode_value(message[spec.MESSAGE_ANNOTATIONS][0])[0]
        assert isinstance(described.value, dict)
        before = described.value
    named: dict[object, object] = {Symbol(key): value for key, value in added.items()}
    assert annotations == {**before, Symbol("x-a"): "old", **named}
    after = {code: parts for code, parts in message.items() if code > spec.MESSAGE_ANNOTATIONS}
    assert changed[end:] == octets_of(after)
    hop = {code: parts for code, parts in message.items() if code < spec.MESSAGE_ANNOTATIONS}
    assert changed.startswith(octets_of(hop))


def test_annotations_that_cannot_be_encoded_are_refused() -> None:
    data = encode_value(Described(ulong(spec.AMQP_VALUE), None))
    with pytest.raises(CodecError):
        with_annotations(data, walked(data), {"ü": 1})
    with pytest.raises(CodecError):
        with_annotations(data, walked(data), {"x-a": object()})


def test_text_of_a_symbol_in_both_forms_and_of_no_other_key() -> None:
    assert symbol_text(encode_value(Symbol("x-a"))) == b"x-a"
    assert symbol_text(encode_value(Symbol("x" * 300))) == b"x" * 300
    assert symbol_text(encode_value(ulong(5))) not in (b"x-a", b"")


def test_header_of_the_first_delivery_is_constant() -> None:
    assert header_octets(True) is header_octets(True)
    found = Sections()
    found.walk(header_octets(False), 0, len(header_octets(False)))
    assert (found.durable, found.first_acquirer) == (0, 1)
