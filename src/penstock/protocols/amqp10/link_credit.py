"""Credit of an incoming link in terms of AMQP 1.0: link properties that set credit, and flow properties that explain
it.

Link properties also begin a lane, and further ones answer (decision 106).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.connections.client_session import ClientSession
from penstock.core.gates.operator import QUEUE as QUEUE_KIND
from penstock.core.publish.credit_window import CreditSettings
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_lanes import WINDOW_MAX, LaneRequest
from penstock.core.publish.sender_credit import SenderCredit
from penstock.core.settings.limits import rates
from penstock.errors import PreconditionFailed, ResourceError
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED, Level
from penstock.protocols.amqp10.target import Target
from penstock.settings.read import read_link_properties
from penstock.texts import worded
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.spec import UINT_MAX
from penstock.wire.amqp10.values import UINT, ULONG, Symbol, Typed

DELAYED_DELIVERY: Final = "DELAYED_DELIVERY"
"""Capability of JMS 2, for a connection or a sender: messages may be delayed."""
EXACT_CREDIT: Final = "penstock:exact-credit"
"""Capability of a sender's link with one target: credit ends at the stop threshold, and outcomes are not withheld."""
MESSAGE_BYTES: Final = "penstock:message-bytes"
"""Link property: the assumed bytes of a message of credit until messages have come."""
BLOCKED_BY: Final = Symbol("penstock:blocked-by")
BLOCKED_SINCE: Final = Symbol("penstock:since")
RETRY_AFTER: Final = Symbol("penstock:retry-after")
"""Flow properties of a link whose credit has ended for lack of room: the gate, seconds since then, milliseconds."""
QUEUE: Final = Symbol("penstock:queue")
"""Name of the gate's queue, if the gate belongs to a queue."""
DEPTH: Final = Symbol("penstock:depth")
THRESHOLDS: Final = (Symbol("penstock:stop"), Symbol("penstock:resume"), Symbol("penstock:capacity"))
"""Depth and thresholds of the gate: maps of `messages` and `bytes`, each ulong, and absent without a limit.

A gate without a depth (a rate, an operator) has none of the four.
"""


class CreditRequest:
    """Request of an attach for the credit and rates of its sender. Raises PreconditionFailed for an invalid setting."""

    def __init__(self, session: ClientSession, name: str, target: Target, attach: Composite) -> None:
        self._session = session
        self.route = target.fixed_route()
        properties = link_properties(attach)
        values = read_link_properties(name, properties)
        self.settings = CreditSettings(session.broker.table, [] if self.route is None else self.route.queues, values)
        self.rates = rates(f"link '{name}'", values)
        """Rates of the request; None without rates."""
        self.exact = self.route is not None and EXACT_CREDIT in attach.texts("desired_capabilities")
        """True if the credit is exact; a link without exactly one target has no exact credit."""
        octets = properties.get(MESSAGE_BYTES)
        self.message_octets: i64 = min(octets, UINT_MAX) if isinstance(octets, int) and octets > 0 else 0
        """Bytes of a message as the sender announces; 0 if it does not."""

    def credit(self, producer: Producer) -> SenderCredit:
        """Return the credit of the new producer."""
        session, settings = self._session, self.settings
        window = settings.window(self.message_octets)
        credit = SenderCredit(producer, session.vhost, self.route, window, session.connection.name(), self.exact)
        credit.idle.idle_s = settings.idle_s
        return credit


def link_properties(attach: Composite) -> dict[str, object]:
    """Return the properties of a link by their names, with plain values."""
    return plain_properties(attach.mapping("properties"))


def plain_properties(properties: dict[object, object]) -> dict[str, object]:
    """Return properties by their names, with plain values."""
    result: dict[str, object] = {}
    for key, value in properties.items():
        if isinstance(key, Symbol):
            result[key.text] = value.value if isinstance(value, Typed) else value
    return result


def window_properties(credit: SenderCredit) -> dict[object, object]:
    """Return the effective credit settings and rates of a link, as link properties."""
    window = credit.window
    properties: dict[object, object] = {}
    if window.messages != UNLIMITED:
        properties[Symbol("credit-window-messages")] = Typed(UINT, min(int(window.messages), UINT_MAX))
    if window.bytes != UNLIMITED:
        properties[Symbol("credit-window-bytes")] = Typed(ULONG, int(window.bytes))
    rate = credit.producer.rate
    if rate is not None and rate.limits.rate_messages is not None:
        properties[Symbol("rate-messages")] = rate.limits.rate_messages
    if rate is not None and rate.limits.rate_bytes is not None:
        properties[Symbol("rate-bytes")] = rate.limits.rate_bytes
    return properties


def attach_fields(credit: SenderCredit) -> dict[str, object]:
    """Return the fields of the broker's attach that describe a sender's credit: properties and capabilities."""
    return {"properties": window_properties(credit), "offered_capabilities": [EXACT_CREDIT] if credit.exact else None}


def blocked_properties(credit: SenderCredit, gate: Gate) -> dict[object, object]:
    """Return the flow properties that name the gate that blocks a sender, with the gate's counts."""
    since = credit.blocked_since()
    properties: dict[object, object] = {
        BLOCKED_BY: f"{gate.kind} '{gate.name}'",
        BLOCKED_SINCE: 0.0 if since is None else round(credit.broker.now - since, 3),
        RETRY_AFTER: Typed(UINT, int(credit.retry_after_s() * 1000)),
    }
    if gate.kind == QUEUE_KIND:
        properties[QUEUE] = gate.name
    measured = gate.measure()
    if measured is not None:
        properties[DEPTH] = _amounts(Level(measured.messages, measured.bytes))
        thresholds = measured.thresholds
        for name, level in zip(THRESHOLDS, (thresholds.stop, thresholds.resume, thresholds.capacity), strict=True):
            properties[name] = _amounts(level)
    return properties


def _amounts(level: Level) -> dict[object, object]:
    """Return a level as a map of an AMQP message."""
    return {name: Typed(ULONG, amount) for name, amount in level.as_dict().items() if amount is not None}


PRODUCER: Final = "penstock:producer"
LANE: Final = "penstock:lane"
EPOCH: Final = "penstock:epoch"
WINDOW: Final = "penstock:window"
NAMED: Final = "penstock:named"
"""Properties of the attach of a sender: ids, epoch, the most deliveries without an outcome (4,096 by default), and
whether the producer's id is a lasting name."""
KNOWN: Final = Symbol("penstock:known")
TAKEN: Final = Symbol("penstock:taken")
REFUSED: Final = Symbol("penstock:refused")
"""Properties of the broker's attach: whether the lane had a mark, the number up to which all is decided, and refused
numbers."""
NUMBER_OCTETS: Final = 9
"""Bytes of a number in a list."""
ATTACH_OCTETS: Final = 2048
"""Bytes of the other fields of an attach, approximately."""


def sender_fields(
    session: ClientSession, credit: SenderCredit, frame_octets: i64, attach: Composite
) -> dict[str, object]:
    """Begin the lane that an attach asks for, if any; the answer must fit into a frame.

    Return the fields of the broker's attach that describe the lane and credit. Raises BrokerError.
    """
    fields = attach_fields(credit)
    if DELAYED_DELIVERY in attach.texts("desired_capabilities"):
        fields["offered_capabilities"] = [*([EXACT_CREDIT] if credit.exact else []), DELAYED_DELIVERY]
    request = _request(link_properties(attach))
    if request is not None:
        lane = _begin(session, credit.producer, frame_octets, request)
        fields["properties"] = {**window_properties(credit), **lane}
    return fields


def _request(properties: dict[str, object]) -> LaneRequest | None:
    """Return the lane that a sender asks for; None if it asks for none.

    Raises PreconditionFailed for an invalid request.
    """
    if PRODUCER not in properties:
        return None
    return LaneRequest(
        _text(properties, PRODUCER),
        _text(properties, LANE),
        _number(properties, EPOCH, 0),
        _number(properties, WINDOW, WINDOW_MAX),
        properties.get(NAMED) is True,
    )


def _begin(session: ClientSession, producer: Producer, octets: i64, request: LaneRequest) -> dict[object, object]:
    """Begin a lane; return the properties of the answer, none if there are too many lanes. Raises BrokerError."""
    fits: i64 = max((octets - ATTACH_OCTETS) // NUMBER_OCTETS, 0)
    if request.window > fits:
        raise PreconditionFailed(
            f"'{WINDOW}' must be at most {fits}, not {request.window}: the answer has to fit into one of your frames "
            f"of {octets} bytes"
        )
    lanes = session.broker.producer_lanes
    try:
        begun = lanes.begin(producer, session.vhost.name, session.connection.access.user, request)
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
        raise PreconditionFailed(f"'{name}' must be a string, not {worded(value)}")
    return value


def _number(properties: dict[str, object], name: str, otherwise: int) -> int:
    value = properties.get(name, otherwise)
    if not isinstance(value, int) or isinstance(value, bool):
        raise PreconditionFailed(f"'{name}' must be a number, not {worded(value)}")
    return value
