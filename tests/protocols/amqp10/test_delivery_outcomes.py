"""Outcomes of delivery states, their annotations, and dispositions."""

from __future__ import annotations

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.errors import ContentTooLarge
from penstock.flow.gate import NEVER_FITS, Refusal
from penstock.protocols.amqp10.delivery_outcomes import outcome_of, rejected_state, write_outcome
from penstock.protocols.amqp10.session import AmqpSession
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_composite
from penstock.wire.amqp10.neutral_reader import annotations_of
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.transfer import ACCEPTED_STATE, STATE_OCTETS_MAX
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    Heard,
    accepted,
    condition,
    data_section,
    performative,
    transfers,
)


@pytest.mark.parametrize(
    ("code", "fields", "expected"),
    [
        (spec.ACCEPTED, {}, Outcome.ACCEPTED),
        (spec.REJECTED, {}, Outcome.REJECTED),
        (spec.RELEASED, {}, Outcome.RELEASED),
        (spec.MODIFIED, {}, Outcome.RELEASED),
        (spec.MODIFIED, {"delivery_failed": True}, Outcome.FAILED),
        (spec.MODIFIED, {"delivery_failed": True, "undeliverable_here": True}, Outcome.UNDELIVERABLE),
        (spec.RECEIVED, {"section_number": 0, "section_offset": 0}, Outcome.RELEASED),
    ],
)
def test_state_determines_the_outcome(code: int, fields: dict[str, object], expected: Outcome) -> None:
    assert outcome_of(code, composite(code, **fields)) is expected


@pytest.mark.parametrize(
    ("code", "expected"), [(spec.ACCEPTED, Outcome.ACCEPTED), (spec.MODIFIED, Outcome.RELEASED), (-1, Outcome.RELEASED)]
)
def test_state_may_have_no_fields(code: int, expected: Outcome) -> None:
    assert outcome_of(code, None) is expected


def with_message(queue: str = "q", **arguments: object) -> Amqp10Dialogue:
    """A peer that has one unsettled message of a queue, whose dead letters go to the queue dead."""
    client = Amqp10Dialogue()
    letters = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
    client.declare("dead")
    client.declare(queue, **letters, **arguments)
    client.attach_sender(queue)
    client.say(client.transfer(data_section(b"x")))
    assert len(transfers(client.attach_receiver(queue, 1, credit=1))) == 1
    return client


def annotations(heard: list[Heard]) -> dict[str, object]:
    """Return the message annotations of the one delivery."""
    (sent,) = transfers(heard)
    sections = Sections()
    sections.walk(sent.payload, 0, len(sent.payload))
    return {str(key): value for key, value in annotations_of(sent.payload, sections).items()}


def test_dead_letter_of_a_rejected_message_has_the_error() -> None:
    client = with_message()
    error = composite(spec.ERROR, condition="app:broken", description="no such customer")
    client.settle(0, 0, composite(spec.REJECTED, error=error))
    found = annotations(client.attach_receiver("dead", 2, credit=1))
    assert (found["x-rejected-condition"], found["x-rejected-description"]) == ("app:broken", "no such customer")
    assert found["x-last-death-reason"] == "rejected"


@pytest.mark.parametrize(("here", "queue"), [(False, "q"), (True, "dead")])
def test_annotations_of_modified_are_merged_into_the_message(here: bool, queue: str) -> None:
    client = with_message()
    merged = {Symbol("x-opt-tries"): 3, Symbol("x-opt-why"): "busy", Symbol("other"): 1}
    state = composite(spec.MODIFIED, delivery_failed=True, undeliverable_here=here, message_annotations=merged)
    client.settle(0, 0, state)
    heard = client.attach_receiver("dead", 2, credit=1) if here else client.flow(1, 1, delivery_count=1)
    found = annotations(heard)
    assert (found["x-opt-tries"], found["x-opt-why"], "other" in found) == (3, "busy", False)
    assert client.depth(queue) == 1
    client.settle(1, 1, accepted())
    left = client.vhost.queues[queue]
    assert (int(left.messages), int(left.bytes)) == (0, 0), "the charge has grown with the message"


@pytest.mark.parametrize(("octets", "capacity"), [(2_000, 1 << 20), (500, 600)])
def test_annotations_that_are_too_large_or_have_no_room_are_left_out(octets: int, capacity: int) -> None:
    client = with_message(capacity_bytes=capacity)
    state = composite(spec.MODIFIED, delivery_failed=True, message_annotations={Symbol("x-opt-a"): "a" * octets})
    client.settle(0, 0, state)
    assert "x-opt-a" not in annotations(client.flow(1, 1, delivery_count=1))
    queue = client.vhost.queues["q"]
    assert queue.bytes <= capacity


def test_messages_with_annotations_are_modified_in_slices() -> None:
    client = Amqp10Dialogue().declare("q")
    client.attach_sender("q")
    client.put(*[b"x"] * 500, settled=True)
    client.attach_receiver("q", 1, credit=500)
    state = composite(spec.MODIFIED, message_annotations={Symbol("x-opt-a"): 1})
    client.connection.receive(performative(spec.DISPOSITION, role=True, first=0, last=499, settled=True, state=state))
    queue = client.vhost.queues["q"]
    assert 0 < queue.coming_back < 500
    client.listen()
    assert (int(queue.coming_back), int(queue.available())) == (0, 500)


def error_of(state: bytes) -> Composite:
    error = decode_composite(state)[0].inner("error")
    assert error is not None
    return error


def test_small_and_large_states_are_written() -> None:
    client = Amqp10Dialogue()
    session = client.connection.engine.session(0)
    assert isinstance(session, AmqpSession)
    large = rejected_state(Refusal("reason", None, "why " * 70), 0.0)
    assert len(large) > STATE_OCTETS_MAX
    write_outcome(session, 1, 3, True, ACCEPTED_STATE)
    write_outcome(session, 4, 4, False, large)
    small, rejected = client.listen()
    assert (small.field("role"), small.field("first"), small.field("last")) == (True, 1, 3)
    assert small.field("settled")
    assert (rejected.field("first"), condition(rejected)) == (4, "amqp:resource-limit-exceeded")
    assert not rejected.field("settled")


def test_outcome_after_the_end_of_a_session_is_not_written() -> None:
    client = Amqp10Dialogue()
    session = client.connection.engine.session(0)
    assert isinstance(session, AmqpSession)
    client.say(performative(spec.END))
    write_outcome(session, 1, 1, True, ACCEPTED_STATE)
    assert client.listen() == []


def test_rejection_has_reason_condition_and_a_time_only_if_a_retry_may_succeed() -> None:
    refusal = Refusal(NEVER_FITS, None, error=ContentTooLarge("too large"))
    error = error_of(rejected_state(refusal, 0.0))
    assert error.fields["condition"] == "amqp:link:message-size-exceeded"
    assert error.mapping("info") == {Symbol("reason"): NEVER_FITS}
    error = error_of(rejected_state(Refusal("deadline", None, retriable=True), 0.0, "amqp:transaction:rollback"))
    assert error.fields["condition"] == "amqp:transaction:rollback"
    assert Symbol("retry-after") in error.mapping("info")
