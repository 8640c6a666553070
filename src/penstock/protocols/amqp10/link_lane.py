"""Lane of an incoming link: the link properties by which a sender begins it, and those that answer (decision 106)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.publish.producer_lanes import WINDOW_MAX, LaneRequest
from penstock.errors import BrokerError, PreconditionFailed, ResourceError
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


def lane_request(properties: dict[str, object]) -> LaneRequest | None:
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


def lane_properties(link: IncomingLink, request: LaneRequest) -> dict[object, object]:
    """Begin the lane of a link; return the properties that answer, none if there are too many lanes.

    Raises BrokerError, and the link has ended then.
    """
    session = link.session
    producer = link.producer
    try:
        fits: i64 = (session.engine.peer_max_frame_size - ATTACH_OCTETS) // NUMBER_OCTETS
        if request.window > fits:
            raise PreconditionFailed(
                f"'{WINDOW}' must be at most {max(int(fits), 0)}, not {request.window}: the answer has to fit into one "
                f"of your frames of {session.engine.peer_max_frame_size} octets"
            )
        user = session.connection.access.user
        begun = producer.broker.producer_lanes.begin(producer, session.vhost.name, user, request)
    except ResourceError:
        return {}
    except BrokerError:
        link.end(False)
        raise
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
