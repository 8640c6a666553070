"""Dispositions that tell outcomes."""

from __future__ import annotations

from penstock.errors import ContentTooLarge
from penstock.flow.refusal import NEVER_FITS, Refusal
from penstock.protocols.amqp10.outcome_writer import rejected_state, write_outcome
from penstock.protocols.amqp10.session import AmqpSession
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, decode_composite
from penstock.wire.amqp10.disposition import ACCEPTED_STATE, STATE_OCTETS_MAX
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, performative


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


def test_nothing_is_written_after_the_end() -> None:
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
