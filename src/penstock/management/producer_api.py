"""Control operations of publishers, about their own channels."""

from __future__ import annotations

from penstock.core.publish import withdrawal
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_lanes import LaneRequest
from penstock.core.publish.session_counts import producers_of
from penstock.errors import NotFound, PreconditionFailed
from penstock.protocols.common.control_request import ControlRequest


def withdraw(request: ControlRequest) -> dict[str, object]:
    """Take a publish back that is held: it is in no queue, and its confirm is a nack.

    Request: `channel` of the same connection, and `number`, the publish's number among its confirms from 1. Answer:
    `withdrawn`; if False it is decided already, and its confirm has been sent or is about to be. Raises NotFound (404),
    PreconditionFailed (406).
    """
    channel, number = request.number("channel"), request.number("number")
    producer = _producer(request, channel)
    published = int(producer.confirms.published)
    if not 1 <= number <= published:
        raise PreconditionFailed(f"channel {channel} has no publish {number}: its last one is {published}")
    return {"withdrawn": withdrawal.withdraw(producer, number)}


def begin(request: ControlRequest) -> dict[str, object]:
    """Begin a session of a lane on a channel with confirms that has published nothing yet (decision 106).

    Request: `channel` of the same connection, `producer`, `lane`, `epoch`, `window`, and `named` if the producer's id
    is a lasting name. Answer: `known`, `taken`, `refused`. Raises NotFound (404), PreconditionFailed (406), and as
    `ProducerLanes.begin`.
    """
    producer = _producer(request, request.number("channel"))
    wanted = LaneRequest(
        request.text("producer"),
        request.text("lane"),
        request.number("epoch"),
        request.number("window"),
        request.flag("named"),
    )
    begun = producer.broker.producer_lanes.begin(producer, request.vhost.name, request.access.user, wanted)
    return {"known": begun.known, "taken": int(begun.taken), "refused": begun.refused}


def _producer(request: ControlRequest, channel: int) -> Producer:
    """Return the producer of a channel with confirms. Raises NotFound (404), PreconditionFailed (406)."""
    session = None if request.connection is None else request.connection.engine.session(channel)
    found = [] if session is None else producers_of(session)
    if len(found) != 1:
        raise NotFound(f"no channel {channel} on the connection of the request")
    if not found[0].confirming:
        raise PreconditionFailed(f"channel {channel} has no confirms: select them first")
    return found[0]
