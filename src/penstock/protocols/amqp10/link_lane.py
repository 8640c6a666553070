"""Lane of an incoming link: the link properties by which a sender begins it, and those that answer (decision 106)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.publish.producer_lanes import WINDOW_MAX, LaneRequest
from penstock.errors import BrokerError, PreconditionFailed, ResourceError
from penstock.protocols.amqp10.link_credit import attach_fields, link_properties, window_properties
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.values import ULONG, Symbol, Typed

if TYPE_CHECKING:
    from penstock.protocols.amqp10.incoming_link import IncomingLink

PRODUCER: Final = "penstock:producer"
LANE: Final = "penstock:lane"
EPOCH: Final = "penstock:epoch"
WINDOW: Final = "penstock:window"
NAMED: Final = "penstock:named"
"""Properties of the attach of a sender: ids, epoch, the most deliveries without an outcome (4,096 if it does not say),
and whether the producer's id is a lasting name."""
KNOWN: Final = Symbol("penstock:known")
TAKEN: Final = Symbol("penstock:taken")
REFUSED: Final = Symbol("penstock:refused")
"""Properties of our attach: whether the lane had a mark, the number up to which all is decided, and refused numbers."""
NUMBER_OCTETS: Final = 9
"""Octets of a number in a list."""
ATTACH_OCTETS: Final = 2048
"""Octets of the other fields of an attach, approximately."""


def sender_fields(link: IncomingLink, attach: Composite) -> dict[str, object]:
    """Begin the lane that an attach asks for, if it does; return the fields of ours that tell of it and of credit.

    Raises BrokerError, and the link has ended then.
    """
    fields = attach_fields(link.credit)
    try:
        request = _request(link_properties(attach))
        if request is not None:
            fields["properties"] = {**window_properties(link.credit), **_begin(link, request)}
    except BrokerError:
        link.end(False)
        raise
    return fields


def _request(properties: dict[str, object]) -> LaneRequest | None:
    """Return the lane that a sender asks for; None for none. Raises PreconditionFailed for an invalid request."""
    if PRODUCER not in properties:
        return None
    return LaneRequest(
        _text(properties, PRODUCER),
        _text(properties, LANE),
        _number(properties, EPOCH, 0),
        _number(properties, WINDOW, WINDOW_MAX),
        properties.get(NAMED) is True,
    )


def _begin(link: IncomingLink, request: LaneRequest) -> dict[object, object]:
    """Begin a lane; return the properties that answer, none if there are too many lanes. Raises BrokerError."""
    session = link.session
    octets = session.engine.peer_max_frame_size
    fits: i64 = max((octets - ATTACH_OCTETS) // NUMBER_OCTETS, 0)
    if request.window > fits:
        raise PreconditionFailed(
            f"'{WINDOW}' must be at most {fits}, not {request.window}: the answer has to fit into one of your frames "
            f"of {octets} octets"
        )
    lanes = session.broker.producer_lanes
    try:
        begun = lanes.begin(link.producer, session.vhost.name, session.connection.access.user, request)
    except ResourceError:
        return {}
    return {
        KNOWN: begun.known,
        TAKEN: Typed(ULONG, int(begun.taken)),
        REFUSED: [Typed(ULONG, number) for number in begun.refused],
    }


def _text(properties: dict[str, object], name: str) -> str:
    value = properties.get(name)
    if not isinstance(value, str):
        raise PreconditionFailed(f"'{name}' must be a string, not {value!r}")
    return value


def _number(properties: dict[str, object], name: str, otherwise: int) -> int:
    value = properties.get(name, otherwise)
    if not isinstance(value, int) or isinstance(value, bool):
        raise PreconditionFailed(f"'{name}' must be a number, not {value!r}")
    return value
