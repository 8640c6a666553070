"""Open connections: bounds in total, by network, by user and by virtual host; and channels by user.

Connections that are not logged in have bounds of their own (pending_logins.py). Those of this machine have none by
network: an operator always gets in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.access.user import MAX_CHANNELS, MAX_CONNECTIONS
from penstock.errors import NotAllowed
from penstock.protocols.common.peer import THIS_MACHINE

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection
    from penstock.protocols.common.connection_limits import ConnectionLimits


class OpenConnections:
    """Count of the connections that have opened a virtual host."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._open: dict[int, str] = {}
        """Networks of open connections, by number."""
        self._networks: dict[str, int] = {}
        """Number of connections by network."""
        self._users: dict[str, dict[int, Connection]] = {}
        """Connections by user and number."""
        self._vhosts: dict[str, int] = {}
        """Number of connections by virtual host."""

    def total(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def enter(self, connection: Connection, vhost: str) -> None:
        """Count a connection that opens a virtual host. Raises NotAllowed (530), in RabbitMQ's words, at a bound."""
        self._check_limits(connection, vhost)
        limits, network = self._limits, connection.peer.network
        if limits.connections_max and len(self._open) >= limits.connections_max:
            raise NotAllowed(
                f"connection refused: node connection limit ({limits.connections_max}) is reached; "
                "connections-max sets it"
            )
        most = limits.connections_address_max
        count = self._networks.get(network, 0)
        if most and count >= most and network != THIS_MACHINE:
            raise NotAllowed(
                f"connection refused: address connection limit ({most}) of {network} is reached; "
                "connections-address-max sets it"
            )
        self._open[connection.number] = network
        self._networks[network] = count + 1
        self._vhosts[vhost] = self._vhosts.get(vhost, 0) + 1
        self._users.setdefault(connection.user, {})[connection.number] = connection

    def _check_limits(self, connection: Connection, vhost: str) -> None:
        """Check the limits of a virtual host and of a user; 0 permits none."""
        table, user = connection.broker.access, connection.user
        most = table.vhost_limit(vhost, MAX_CONNECTIONS)
        if 0 <= most <= self.connections_to(vhost):
            raise NotAllowed(
                f"access to vhost '{vhost}' refused for user '{user}': connection limit ({most}) is reached"
            )
        most = table.user_limit(user, MAX_CONNECTIONS)
        if 0 <= most <= self.connections_of(user):
            raise NotAllowed(f"connection refused for user '{user}': user connection limit ({most}) is reached")

    def check_channels(self, connection: Connection) -> None:
        """Check that a user may open another channel, or session. Raises NotAllowed (530), in RabbitMQ's words."""
        user = connection.user
        most = connection.broker.access.user_limit(user, MAX_CHANNELS)
        if 0 <= most <= self.channels_of(user):
            reached = f"has reached the maximum allowed user limit of ({most})"
            raise NotAllowed(f"number of channels opened for user '{user}' {reached}")

    def connections_of(self, user: str) -> int:
        """Return the number of connections of a user."""
        return len(self._users.get(user, {}))

    def channels_of(self, user: str) -> int:
        """Return the number of channels, and sessions, of a user over all its connections."""
        count = 0
        for connection in self._users.get(user, {}).values():
            connection.broker.work.done += 1
            count += len(connection.engine.sessions())
        return count

    def connections_to(self, vhost: str) -> int:
        """Return the number of connections to a virtual host."""
        return self._vhosts.get(vhost, 0)

    def leave(self, connection: Connection) -> None:
        """Forget a connection, if it was counted."""
        network = self._open.pop(connection.number, None)
        if network is None:
            return
        mine = self._users[connection.user]
        del mine[connection.number]
        if not mine:
            del self._users[connection.user]
        assert connection.vhost is not None
        self._vhosts[connection.vhost.name] -= 1
        if not self._vhosts[connection.vhost.name]:
            del self._vhosts[connection.vhost.name]
        count = self._networks[network] - 1
        if count > 0:
            self._networks[network] = count
        else:
            del self._networks[network]

    def count(self, network: str) -> int:
        """Return the number of connections of a network."""
        return self._networks.get(network, 0)
