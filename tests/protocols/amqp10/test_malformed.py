"""Malformed performatives and messages have the condition of the codec, and end different scopes."""

from __future__ import annotations

import pytest

from penstock.errors import CODES
from penstock.protocols.amqp10.malformed import MalformedMessage, MalformedPerformative
from penstock.wire.amqp10.malformed import DECODE_ERROR, FRAMING_ERROR, INVALID_FIELD, NOT_IMPLEMENTED, CodecError

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


def test_malformed_input_has_a_code_of_amqp_0_9_1_whose_condition_is_the_same_where_there_is_one() -> None:
    for condition in CONDITIONS - {INVALID_FIELD}:
        assert CODES[MalformedMessage(CodecError("x", condition)).code].condition == condition
