"""Contents of AMQP 1.0 that clients publish as they are stored."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from penstock.content.selector.fields import DEFAULT_PRIORITY
from penstock.core.message_format import StoredContent
from penstock.errors import PreconditionFailed
from penstock.flow.timers import NEVER
from penstock.protocols.amqp10.message_format import Amqp10Format
from penstock.protocols.amqp10.stored_content import StoredSections
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.sections import durable_header
from penstock.wire.amqp10.values import Symbol
from tests.profiles import examples
from tests.support.amqp10_messages import decode_message
from tests.support.amqp10_strategies import messages, octets_of, section

DATA = section(spec.DATA, b"body")
ANNOTATED = section(spec.MESSAGE_ANNOTATIONS, {Symbol("x-opt-delivery-delay"): 60_000, Symbol("x-cc"): ["k"]})
FORMAT = Amqp10Format()


def checked(content: bytes, user: bytes = b"guest") -> StoredContent:
    found = StoredContent()
    StoredSections().check(content, user, found)
    return found


@settings(max_examples=examples(300))
@given(messages())
def test_stored_sections_pass_unchanged(message: dict[int, list[bytes]]) -> None:
    message.pop(spec.DELIVERY_ANNOTATIONS, None)
    message.pop(spec.MESSAGE_ANNOTATIONS, None)
    content = octets_of(message)
    if not content:
        return
    user = decode_message(content).properties.get("user_id")
    found = checked(content, b"guest" if user is None else user)  # type: ignore[arg-type]
    assert found.content == content
    assert found.charge == FORMAT.charge(content)


def test_facts_of_a_transfer_are_read_from_the_sections() -> None:
    header = encode(spec.HEADER, durable=True, priority=7, ttl=1500)
    found = checked(header + encode(spec.PROPERTIES, absolute_expiry_time=1_700_000_000_000) + DATA)
    assert (found.persistent, found.priority, found.ttl_s, found.expires_ms) == (True, 7, 1.5, 1_700_000_000_000)
    plain = checked(durable_header(False) + DATA)
    assert (plain.persistent, plain.priority, plain.ttl_s, plain.expires_ms) == (False, DEFAULT_PRIORITY, NEVER, 0)
    assert checked(DATA).persistent, "as a transfer without the field durable"


def test_delays_and_copies_that_annotations_ask_for_are_kept_and_not_read() -> None:
    content = ANNOTATED + DATA
    assert checked(content).content == content


def test_delivery_annotations_are_left_out() -> None:
    header = encode(spec.HEADER, durable=True)
    extra = section(spec.DELIVERY_ANNOTATIONS, {Symbol("x-link"): 1})
    assert checked(header + extra + ANNOTATED + DATA).content == header + ANNOTATED + DATA


@pytest.mark.parametrize("length", [3, 300])
def test_user_id_of_another_user_is_left_out_beside_delivery_annotations(length: int) -> None:
    properties = encode(spec.PROPERTIES, message_id="m", user_id=b"u" * length, to="t", subject="s")
    extra = section(spec.DELIVERY_ANNOTATIONS, {Symbol("x-link"): 1})
    content = extra + ANNOTATED + properties + DATA
    found = checked(content)
    assert found.content == ANNOTATED + encode(spec.PROPERTIES, message_id="m", to="t", subject="s") + DATA
    assert found.charge == len(found.content)
    own = checked(ANNOTATED + properties + DATA, b"u" * length)
    assert decode_message(own.content).properties["user_id"] == b"u" * length


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "a message without a section"),
        (b"\x00", "ends|descriptor|end"),
        (DATA[:-1], "data"),
        (DATA + encode(spec.HEADER, durable=True), "after"),
        (section(spec.MESSAGE_ANNOTATIONS, {Symbol("reserved"): 1}) + DATA, "reserved key 'reserved'"),
    ],
)
def test_malformed_sections_are_refused_with_their_fault(content: bytes, rule: str) -> None:
    with pytest.raises(PreconditionFailed, match=rule):
        checked(content)
