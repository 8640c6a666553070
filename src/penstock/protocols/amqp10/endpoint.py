"""Endpoint: the broker's end of a connection (section 2.4), with the parts that its sessions and links share.

A client may want to be the only connection of its container: "AMQP Enforcing Connection Uniqueness 1.0" (OASIS, 2018).
Such a client sends a desired capability in its open. The policy of the newer client decides: the newer connection is
refused (the default), or the existing one is closed. As in RabbitMQ 4.4, only connections that have asked count (weak
detection), and no client closes the connection of another user.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.connections.connection import Connection
from penstock.connections.peer import SHOWN_LETTERS
from penstock.core.broker import Broker
from penstock.core.message import Origin
from penstock.errors import BrokerError, InvalidField, PeerFrameTooSmall, ResourceLocked
from penstock.protocols.amqp10.delivery_tags import TagCount
from penstock.protocols.amqp10.dynamic_nodes import DynamicNodes
from penstock.protocols.amqp10.error_scopes import error_composite, fitted
from penstock.protocols.amqp10.message_format import FIRST_OCTET, Amqp10Format
from penstock.protocols.amqp10.suspended_links import SuspendedLinks
from penstock.protocols.amqp10.target import SharedTargets
from penstock.protocols.amqp10.transactions import Transactions
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.field_cursor import FieldCursor
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.spec import CLOSE, FRAME_AMQP, FRAME_MIN_SIZE
from penstock.wire.amqp10.transfer import Disposition, Flow, Transfer
from penstock.wire.amqp10.values import UINT, Symbol, Typed

CAPABILITY: Final = "sole-connection-for-container"
"""Capability of an open: desired by the client, offered by the broker."""
_POLICY: Final = Symbol("sole-connection-enforcement-policy")
"""Property of the client's open: 0 refuses the new connection, 1 closes the existing one."""
_CLOSE_EXISTING: Final = 1
DETECTION: Final[dict[object, object]] = {Symbol("sole-connection-detection-policy"): Typed(UINT, 1)}
"""Property of the broker's open: weak, because connections that did not ask are not found."""


class SoleConnections:
    """Connections of one broker that are the only one of their container."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, str], Endpoint] = {}
        """Endpoints of these connections by virtual host and container-id."""

    def claim(self, endpoint: Endpoint, vhost: str, opened: Composite) -> None:
        """Register a connection, if its open asks to be the only one of its container. The existing connection is
        closed if the open says so.

        Raises InvalidField if the new connection is to be refused.
        """
        if CAPABILITY not in opened.texts("desired_capabilities"):
            return
        container = endpoint.container
        existing = self._endpoints.get((vhost, container))
        if existing is not None and not existing.connection.is_closing():
            policy = opened.mapping("properties").get(_POLICY)
            closes = isinstance(policy, Typed) and policy.value == _CLOSE_EXISTING
            if not closes or existing.connection.user != endpoint.connection.user:
                endpoint.close_info = {Symbol("invalid-field"): Symbol("container-id")}
                raise InvalidField(
                    f"open of container '{container}', which has a connection that is to be its only one"
                )
            existing.close_info = {Symbol("sole-connection-enforcement"): True}
            existing.connection.close(ResourceLocked(f"container '{container}' has opened another sole connection"))
        self._endpoints[vhost, container] = endpoint

    def holds(self, endpoint: Endpoint) -> bool:
        """Return whether a connection is registered."""
        vhost = endpoint.connection.vhost
        return vhost is not None and self._endpoints.get((vhost.name, endpoint.container)) is endpoint

    def forget(self, endpoint: Endpoint) -> None:
        """Remove a connection that has ended."""
        vhost = endpoint.connection.vhost
        if vhost is not None and self.holds(endpoint):
            del self._endpoints[vhost.name, endpoint.container]


class FrameParts:
    """Structs for reading a frame. All connections share them: the structs hold nothing between two frames."""

    def __init__(self) -> None:
        self.cursor = FieldCursor()
        self.transfer = Transfer()
        self.flow = Flow()
        self.disposition = Disposition()
        self.sections = Sections()
        """Sections of the message that a link handles."""


class SharedParts:
    """Parts that all connections of a broker share."""

    def __init__(self, broker: Broker) -> None:
        self.nodes = DynamicNodes(broker)
        self.suspended = SuspendedLinks(broker)
        """Attached and suspended links."""
        self.sole = SoleConnections()
        """Connections that are the only one of their container."""
        self.frames = FrameParts()


class Endpoint:
    """The broker's end of one connection: the limits of both sides, frames to the peer, and the shared parts of its
    links."""

    def __init__(self, connection: Connection, shared: SharedParts) -> None:
        limits = connection.limits
        self.connection: Connection = connection
        self.shared: SharedParts = shared
        self.format = _format_of(connection.broker)
        self.max_frame_size: i64 = limits.start.initial_frame_max
        """Largest frame that the peer may send now."""
        self.peer_max_frame_size: i64 = FRAME_MIN_SIZE
        """Largest frame that the peer accepts."""
        self.channel_max: int = limits.start.channel_max
        self.container: str = ""
        """Container id of the peer."""
        self.origin = Origin(connection.number, "")
        """The connection as the publisher of its messages, for no-local."""
        self._flowing: dict[int, None] = {}
        """Numbers of sessions with flows to write."""
        self.targets = SharedTargets()
        """Targets that links of the connection share."""
        self.unsent = TagCount(shared.suspended.stored_tags)
        """Number of deliveries, of all links, whose outcome their sender does not know."""
        self.link_count: int = 0
        """Number of links of all sessions."""
        self.side_lanes: int = 0
        """Number of side lanes of all links."""
        self.close_sent: bool = False
        self.close_info: dict[object, object] | None = None
        """Info map of the error that closes the connection; None without one."""
        self._transactions: Transactions | None = None
        """Transactions of the connection, once it has a coordinator link."""

    def agree(self, opened: Composite) -> None:
        """Take the peer's name and limits from its open. Raises InvalidField."""
        limits = self.connection.limits
        size = opened.number("max_frame_size", 0xFFFFFFFF)
        if size < FRAME_MIN_SIZE:
            raise InvalidField(f"open with a max-frame-size of {size}; at least 512 is valid")
        self.container = opened.text("container_id")[:SHOWN_LETTERS]
        self.origin = Origin(self.connection.number, self.container)
        self.unsent.log_in(self.connection.user)
        self.max_frame_size = limits.start.frame_max
        self.peer_max_frame_size = min(size, limits.start.frame_max)
        self.channel_max = min(opened.number("channel_max", 0xFFFF), limits.start.channel_max)

    def send(self, channel: i64, performative: Composite, kind: int = FRAME_AMQP) -> None:
        """Write a performative frame. No frame follows a close."""
        if self.close_sent and performative.code != CLOSE:
            return
        octets = fitted(performative, int(self.peer_max_frame_size))
        if octets is None:
            size = self.peer_max_frame_size
            refusal = PeerFrameTooSmall(f"{performative.name} does not fit into the {size} bytes of a frame")
            self.connection.close(refusal)
            return
        self.connection.output.buffer.write(frame(int(channel), octets, kind))
        self.connection.request_flush()

    def send_close(self, error: BrokerError | None = None) -> None:
        """Write a close, with the error that is the reason for it."""
        self.close_sent = True
        self.send(0, composite(CLOSE, error=None if error is None else error_composite(error, self.close_info)))

    def request_flow(self, number: i64) -> None:
        """Schedule the flows of a session, which are written when the output is taken at the end of the turn."""
        self._flowing[int(number)] = None
        self.connection.request_flush()

    def take_flowing(self) -> dict[int, None]:
        """Take the numbers of the sessions with flows to write."""
        flowing = self._flowing
        if flowing:
            self._flowing = {}
        return flowing

    def transactions(self) -> Transactions:
        """Return the transactions of the connection, created at first use."""
        if self._transactions is None:
            self._transactions = Transactions()
        return self._transactions

    def write_provisional(self) -> None:
        """Write the provisional outcomes that are due."""
        if self._transactions is not None:
            self._transactions.write_provisional()


def _format_of(broker: Broker) -> Amqp10Format:
    message_format = broker.formats.by_octet(FIRST_OCTET)
    assert isinstance(message_format, Amqp10Format)
    return message_format
