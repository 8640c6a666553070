"""Messages that arrive in pieces: counted as they come, and bounded for each connection and for the node.

Theory of operation. What has come of a message whose end has not is memory that no queue's capacity knows of. It is
counted by channel, by connection and for the node, and in the node's memory gate, exactly: what was counted is given
back when the message is whole, or its channel gone.

A connection has a bound, which its largest message always fits into; beyond, the channel that sent the next piece is
closed (506). The node has one as well; beyond, the connection that has the most gives way, with its largest message:
whoever begins messages and never ends them keeps nobody else out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.errors import ResourceError
from penstock.wire.amqp091.spec import BASIC_PUBLISH

if TYPE_CHECKING:
    from penstock.driver.driver import BrokerDriver
    from penstock.protocols.amqp091.channel import Channel
    from penstock.protocols.amqp091.connection import Connection

PIECE_BYTES: Final = 48
"""What a frame that is kept as it came takes besides its payload."""
SHARE_OF_MEMORY: Final = 4
"""All messages that arrive in pieces have at most one part in so many of the node's memory."""
NODE_BYTES: Final = 1024 * 1024 * 1024
"""The same, where the node's memory is not bounded."""


class PartialMessages:
    """Those of all connections."""

    def __init__(self, driver: BrokerDriver) -> None:
        self._driver = driver
        self.bytes: i64 = 0
        """What has come of all messages that are not whole."""
        self._connections: dict[int, Connection] = {}
        """Connections that have any, by number."""

    def add(self, channel: Channel, size: i64) -> None:
        """Count a piece. Raises ResourceError (506) where its connection, or the node, has too many."""
        connection = channel.connection
        most = self.connection_most()
        if connection.arriving + size > most:
            raise ResourceError(
                f"messages that arrive in pieces hold {int(connection.arriving):,} bytes of this connection, "
                f"of at most {most:,} (arriving-bytes-max); let one end before the next begins"
            )
        if self.bytes + size > self.node_most():
            self._make_room(channel, size)
        self._connections[connection.number] = connection
        channel.arriving += size
        connection.arriving += size
        self._count(size)

    def give_back(self, channel: Channel) -> None:
        """Count a message no longer: it is whole, or is dropped."""
        size = channel.arriving
        if size:
            connection = channel.connection
            channel.arriving = 0
            connection.arriving -= size
            if connection.arriving == 0:
                del self._connections[connection.number]
            self._count(-size)

    def connection_most(self) -> int:
        """Return how many bytes a connection may have: as the policy says, and always its largest message."""
        policy = self._driver.connection_limits
        return max(policy.arriving_bytes_max, policy.largest_arrival())

    def node_most(self) -> int:
        """Return how many bytes all connections may have: a part of the node's memory, and always one message."""
        memory = self._driver.broker.gates.memory
        share = NODE_BYTES if memory is None else int(memory.thresholds.capacity.bytes) // SHARE_OF_MEMORY
        return max(share, self._driver.connection_limits.largest_arrival())

    def _make_room(self, channel: Channel, size: i64) -> None:
        """Close channels of those that have the most until a piece fits. Raises ResourceError if that is its own."""
        while self.bytes + size > self.node_most():
            crowd = channel.connection
            for each in self._connections.values():
                if each.arriving > crowd.arriving:
                    crowd = each
            error = ResourceError(
                f"messages that arrive in pieces hold {int(self.bytes):,} bytes of all connections, of at most "
                f"{self.node_most():,}, and this connection has the most of them; publish again later"
            )
            if crowd is channel.connection:
                raise error
            largest = max(crowd.channels.values(), key=_arriving)
            crowd.on_error(int(largest.number), error, BASIC_PUBLISH)

    def _count(self, by: i64) -> None:
        self.bytes += by
        self._driver.broker.gates.count_besides(by)


def _arriving(channel: Channel) -> int:
    return int(channel.arriving)
