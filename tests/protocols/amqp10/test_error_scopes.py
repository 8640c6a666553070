"""Scopes of errors in AMQP 1.0: the error's own, or that of the performative at fault."""

from __future__ import annotations

import pytest

from penstock.errors import (
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
from penstock.protocols.amqp10.error_scopes import DESCRIPTION_MAX, Scope, error_composite, scope_of
from penstock.protocols.amqp10.malformed import MalformedMessage, MalformedPerformative
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import decode_composite, encode, encode_composite
from penstock.wire.amqp10.malformed import CodecError
from penstock.wire.amqp10.values import Symbol


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
def test_error_ends_the_larger_of_its_scope_and_that_of_the_performative(
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
