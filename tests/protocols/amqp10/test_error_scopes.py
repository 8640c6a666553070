"""Scopes of errors in AMQP 1.0: the error's own, or that of the performative at fault.

Malformed performatives and messages have the condition of the codec, and end different scopes.

Frames of a peer that takes only small ones: what is left out, and what closes the connection.
"""

from __future__ import annotations

import pytest

from penstock.errors import (
    CODES,
    BrokerError,
    ConnectionForced,
    ContentTooLarge,
    HandleInUse,
    NotAllowed,
    NotFound,
    ResourceError,
    TransferLimitExceeded,
    WindowViolation,
)
from penstock.protocols.amqp10.error_scopes import (
    DESCRIPTION_MAX,
    MalformedMessage,
    MalformedPerformative,
    Scope,
    error_composite,
    fitted,
    scope_of,
)
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, decode_composite, encode, encode_composite
from penstock.wire.amqp10.values import DECODE_ERROR, FRAMING_ERROR, INVALID_FIELD, NOT_IMPLEMENTED, CodecError, Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, data_section


@pytest.mark.parametrize(
    ("error", "performative", "scope"),
    [
        (NotFound("x"), spec.TRANSFER, Scope.DELIVERY),
        (NotFound("x"), spec.ATTACH, Scope.LINK),
        (NotAllowed("x"), spec.OPEN, Scope.CONNECTION),
        (ResourceError("x"), spec.BEGIN, Scope.SESSION),
        (ResourceError("x"), spec.TRANSFER, Scope.DELIVERY),
        (ContentTooLarge("x"), spec.TRANSFER, Scope.LINK),
        (TransferLimitExceeded("x"), spec.TRANSFER, Scope.LINK),
        (WindowViolation("x"), spec.TRANSFER, Scope.SESSION),
        (HandleInUse("x"), spec.ATTACH, Scope.SESSION),
        (NotAllowed("x"), spec.DISPOSITION, Scope.SESSION),
        (MalformedMessage(CodecError("x")), spec.TRANSFER, Scope.DELIVERY),
        (MalformedPerformative(CodecError("x")), spec.TRANSFER, Scope.CONNECTION),
        (ConnectionForced("x"), spec.TRANSFER, Scope.CONNECTION),
    ],
)
def test_error_ends_the_larger_scope_of_error_and_performative(
    error: BrokerError, performative: int, scope: Scope
) -> None:
    assert scope_of(error, performative) is scope


def test_error_in_a_flow_ends_the_link_only_if_the_flow_has_a_handle() -> None:
    assert scope_of(NotFound("x"), spec.FLOW, has_handle=True) is Scope.LINK
    assert scope_of(NotFound("x"), spec.FLOW) is Scope.SESSION


def test_error_of_an_unknown_performative_ends_the_connection() -> None:
    assert scope_of(NotFound("x"), 0x99) is Scope.CONNECTION


def test_error_composite_has_condition_description_and_info() -> None:
    info: dict[object, object] = {Symbol("reason"): "deadline"}
    found, _ = decode_composite(encode_composite(error_composite(NotFound("no queue 'a'"), info)))
    assert found.fields == {"condition": "amqp:not-found", "description": "no queue 'a'", "info": info}
    assert error_composite(NotFound("")).fields == {"condition": "amqp:not-found", "description": None, "info": None}


@pytest.mark.parametrize("letter", ["a", "ä", "\N{GRINNING FACE}", "\ud800"])
def test_error_composite_fits_into_the_smallest_frame(letter: str) -> None:
    error = error_composite(TransferLimitExceeded(letter * 1000))
    frame = encode(spec.DETACH, handle=spec.UINT_MAX, closed=True, error=error)
    assert DESCRIPTION_MAX < len(frame) <= spec.FRAME_MIN_SIZE - spec.FRAME_OVERHEAD


CONDITIONS = {DECODE_ERROR, FRAMING_ERROR, INVALID_FIELD, NOT_IMPLEMENTED}


@pytest.mark.parametrize("condition", sorted(CONDITIONS))
def test_malformed_input_has_the_condition_of_the_codec(condition: str) -> None:
    error = CodecError("attach: handle: it is mandatory and absent", condition)
    performative, message = MalformedPerformative(error), MalformedMessage(error)
    assert str(performative) == str(message) == error.reason
    assert performative.condition == message.condition == condition
    assert performative.code == message.code
    assert performative.code in CODES
    assert (performative.ends, message.ends) == ("connection", "delivery")


def test_malformed_input_has_the_amqp091_code_of_the_same_condition() -> None:
    for name in CONDITIONS - {INVALID_FIELD}:
        assert CODES[MalformedMessage(CodecError("x", name)).code].condition == name


def test_performative_that_fits_is_unchanged() -> None:
    flow = composite(
        spec.FLOW,
        incoming_window=1,
        next_outgoing_id=0,
        outgoing_window=1,
        properties={Symbol("a"): "b" * 400},
    )
    octets = fitted(flow, 512)
    assert octets is not None
    assert decode_composite(octets)[0] == flow


def test_properties_maps_and_reasons_are_left_out_where_frames_are_small() -> None:
    attach = composite(
        spec.ATTACH,
        name="a",
        handle=0,
        role=True,
        properties={Symbol("a"): "b" * 600},
        unsettled={bytes([n]) * 32: None for n in range(20)},
    )
    error = composite(spec.ERROR, condition="amqp:not-allowed", description="d" * 300, info={Symbol("gate"): "g" * 300})
    rejected = composite(
        spec.DISPOSITION, role=True, first=0, settled=True, state=composite(spec.REJECTED, error=error)
    )
    for performative in (attach, rejected, composite(spec.DETACH, handle=0, error=error)):
        octets = fitted(performative, 512)
        assert octets is not None
        assert len(octets) <= 504
    shortened = decode_composite(fitted(attach, 512) or b"")[0]
    assert (shortened.text("name"), shortened.flag("incomplete_unsettled")) == ("a", True)


def test_rejection_reaches_a_peer_with_the_smallest_frames() -> None:
    client = Amqp10Dialogue(max_frame_size=512)
    name = "q" * 250
    client.declare(name, capacity_messages=1, hold_deadline=1.0)
    client.driver.begin(100.0)
    client.attach_sender(f"/queues/{name}")
    client.say(client.transfer(data_section(b"x")), client.transfer(data_section(b"y")))
    heard = client.listen(102.0)
    assert "amqp:resource-limit-exceeded" in [condition(each) for each in heard if each.name == "disposition"]


def test_attach_that_cannot_be_answered_closes_the_connection() -> None:
    client = Amqp10Dialogue(max_frame_size=512).declare("q")
    (closed,) = client.attach_receiver("/queues/q", name="n" * 600)
    assert (closed.name, condition(closed)) == ("close", "amqp:frame-size-too-small")
