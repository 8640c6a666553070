"""The client side of a channel's producer: confirms, returns, errors and channel.flow (see `ProducerListener`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from penstock.core.publish.held import Held
from penstock.core.publish.producer_listener import ProducerListener
from penstock.core.routing.route import Route
from penstock.errors import BrokerError, ResourceError
from penstock.flow.gate import Gate
from penstock.management import log_messages
from penstock.protocols.amqp091.basic_return import write_return

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel


class ChannelPublisher(ProducerListener):
    """The publishing client of a channel."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel.connection_number)
        self.channel = channel
        self._enforced: int = 0
        """Number of gates that block it and were logged; rate gates are left out."""

    @override
    def on_confirms(self) -> None:
        self.channel.write_confirms()

    @override
    def on_returned(self, route: Route, content: bytes, refused: BrokerError | None) -> None:
        write_return(self.channel, route, content, refused)

    @override
    def on_closed(self, error: BrokerError) -> None:
        self.channel.fail(error)

    def on_blocked(self, gate: Gate) -> bool:
        """Count a gate for its connection, and stop a client that obeys channel.flow at the first one.

        The first gate of a channel is logged, and the release of its last: once each (as Broker-J does).
        """
        if not self.channel.connection.count_block(gate, 1):
            return False
        self._enforced += 1
        if self._enforced > 1:
            return False
        self.channel.send_flow_stop(gate)
        return True

    def on_unblocked(self, gate: Gate) -> bool:
        """See `on_blocked`."""
        if not self.channel.connection.count_block(gate, -1):
            return False
        self._enforced -= 1
        if self._enforced > 0:
            return False
        self.channel.send_flow_start()
        return True

    def on_departed(self) -> None:
        """Add the lost publishes to those of its connection, which are logged together."""
        self.channel.connection.count_departed(self.channel.producer)

    def publish_error(self) -> BrokerError | None:
        """Refuse a client that obeys channel.flow and went on publishing after the enforcement time."""
        channel = self.channel
        flow = channel.channel_flow
        if flow is None or channel.broker.now < flow.forbidden_from:
            return None
        channel.connection.services.log(log_messages.ignored(channel.name))
        return ResourceError("channel.flow was requested, but the client went on publishing")

    def on_held(self, held: Held) -> None:
        """Log once a connection that a publish without a confirm is held: its process may exit before it passes."""
        connection = self.channel.connection
        if held.pending is None and not connection.losses.held_unconfirmed:
            connection.losses.held_unconfirmed = True
            deadline_s = held.deadline - self.channel.broker.now
            connection.services.log(log_messages.held_unconfirmed(self.channel.name, deadline_s))
