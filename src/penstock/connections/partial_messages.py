"""Accounting of messages that arrive in pieces, with bounds per connection and for the node.

Theory of operation. The received part of an incomplete message is memory that no queue's capacity covers. This memory
is counted per message, per connection, for the node and in the node's memory gate. The memory is released when the
message is complete or was dropped. A channel of AMQP 0-9-1 has at most one such message, a session of AMQP 1.0 one for
each of its links.

A connection has a bound into which its largest message always fits. Beyond it the sender of the next piece is closed
(506): a channel, or a link. The node has a bound too, as a pool. Beyond it the largest message is dropped: of the
connection with the most, of the user with the most, in the virtual host with the most. So a client that never completes
its messages keeps no other client out.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.connections.connection import Connection
from penstock.connections.services import Services
from penstock.errors import BrokerError, ResourceError
from penstock.flow.pool import PoolHolder
from penstock.settings.pools import ARRIVING

PIECE_BYTES: Final = 48
"""Memory per stored frame in addition to its payload."""
SHARE_OF_MEMORY: Final = 4
"""Part of the node's memory that all partial messages may use, as a divisor."""
NODE_BYTES: Final = 1024 * 1024 * 1024
"""Bound for the node if its memory is not limited."""


class PartialMessage:
    """Message that arrives in pieces. A protocol implements `fail`."""

    def __init__(self, connection: Connection) -> None:
        self.connection: Connection = connection
        self.charge: i64 = 0
        """Charge of the received part."""

    def fail(self, error: BrokerError) -> None:
        """Drop the message: close its channel, or detach its link, with an error."""
        raise NotImplementedError


class Arriving:
    """The partial messages of one connection."""

    __slots__ = ("holder", "messages")

    def __init__(self, holder: PoolHolder) -> None:
        self.holder = holder
        self.messages: dict[PartialMessage, None] = {}


class PartialMessages:
    """Partial messages of all connections."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.pool = services.broker.pools.of(ARRIVING)
        """Charge of all partial messages."""
        self._arriving: dict[tuple[str, str], dict[Connection, Arriving]] = {}
        """Connections with partial messages, by virtual host and user."""

    def add(self, message: PartialMessage, size: i64) -> None:
        """Count a piece. Raises ResourceError (506) if the connection, or the node, is over its bound."""
        connection = message.connection
        most = self.connection_most()
        if connection.arriving + size > most:
            raise ResourceError(
                f"messages of this connection that have arrived in part hold {int(connection.arriving):,} bytes "
                f"of at most {most:,} (arriving-bytes-max); complete one before the next begins"
            )
        part = (connection.access.vhost, connection.access.user)
        if self.pool.taken + size > self.node_most():
            self._make_room(connection, part, size)
        if message.charge == 0:
            connections = self._arriving.setdefault(part, {})
            arriving = connections.get(connection)
            if arriving is None:
                arriving = Arriving(connection.access.holder())
                connections[connection] = arriving
            arriving.messages[message] = None
        message.charge += size
        connection.arriving += size
        self._count(connection, size)

    def resize(self, message: PartialMessage, charge: i64) -> None:
        """Count the bytes of a message in memory, at least 1. Raises ResourceError (506) as `add`."""
        if charge > message.charge:
            self.add(message, charge - message.charge)
        elif 0 < charge < message.charge:
            freed = message.charge - charge
            message.charge = charge
            message.connection.arriving -= freed
            self._count(message.connection, -freed)

    def give_back(self, message: PartialMessage) -> None:
        """Release a message: it is complete, or was dropped."""
        size = message.charge
        if size:
            connection = message.connection
            message.charge = 0
            connection.arriving -= size
            self._count(connection, -size)
            part = (connection.access.vhost, connection.access.user)
            connections = self._arriving[part]
            del connections[connection].messages[message]
            if not connections[connection].messages:
                del connections[connection]
                if not connections:
                    del self._arriving[part]

    def connection_most(self) -> int:
        """Return the bound of a connection: the configured one, and at least its largest message."""
        policy = self._services.connection_limits
        return max(policy.start.arriving_bytes_max, policy.largest_arrival())

    def node_most(self) -> int:
        """Return the bound of all connections: a part of the node's memory, and at least one message."""
        memory = self._services.broker.gates.memory
        share = NODE_BYTES if memory is None else int(memory.thresholds.capacity.bytes) // SHARE_OF_MEMORY
        most = max(share, self._services.connection_limits.largest_arrival())
        self.pool.set_limit(most)
        return most

    def _make_room(self, connection: Connection, part: tuple[str, str], size: i64) -> None:
        """Fail messages of the largest holders until a piece fits.

        Raises ResourceError if this connection is the largest.
        """
        while self.pool.taken + size > self.node_most():
            largest = self.pool.largest_part(part, size)
            crowd = connection if largest == part else None
            for each in self._arriving.get(largest, {}):
                if crowd is None or each.arriving > crowd.arriving:
                    crowd = each
            error = ResourceError(
                f"messages that arrive in pieces hold {int(self.pool.taken):,} bytes of all connections, of at most "
                f"{self.node_most():,}, and this connection has the most of them; publish again later "
                f"(most: {self.pool.describe_holders()})"
            )
            if crowd is None or crowd is connection:
                raise error
            max(self._arriving[largest][crowd].messages, key=_charge).fail(error)

    def _count(self, connection: Connection, by: i64) -> None:
        arriving = self._arriving[connection.access.vhost, connection.access.user][connection]
        self.pool.add(arriving.holder, by)
        self._services.broker.gates.count_other_memory(by)


def _charge(message: PartialMessage) -> int:
    return int(message.charge)
