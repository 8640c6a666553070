"""Open connections: counts by user, virtual host and network, and the limits of them.

A broker counts its own. A node with shards counts the clients that it gives to them in the same way.
"""

from __future__ import annotations

from penstock.access.access_table import AccessTable
from penstock.access.user import MAX_CONNECTIONS
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.peer import THIS_MACHINE
from penstock.errors import NotAllowed


class ConnectionCounts:
    """Counts of open connections by user, virtual host and network, with their limits."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._open: dict[int, tuple[str, str, str]] = {}
        """User, virtual host and network of open connections, by number."""
        self._users: dict[str, int] = {}
        self._vhosts: dict[str, int] = {}
        self._networks: dict[str, int] = {}
        """Numbers of connections."""

    def total(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def check(self, table: AccessTable, user: str, vhost: str, network: str) -> None:
        """Check the limits for one more connection. Raises NotAllowed (530), in RabbitMQ's words, at a limit.

        A limit of 0 of a virtual host or a user permits none.
        """
        most = table.vhost_limit(vhost, MAX_CONNECTIONS)
        if 0 <= most <= self.connections_to(vhost):
            raise NotAllowed(
                f"access to vhost '{vhost}' refused for user '{user}': connection limit ({most}) is reached"
            )
        most = table.user_limit(user, MAX_CONNECTIONS)
        if 0 <= most <= self.connections_of(user):
            raise NotAllowed(f"connection refused for user '{user}': user connection limit ({most}) is reached")
        start = self._limits.start
        if start.connections_max and len(self._open) >= start.connections_max:
            raise NotAllowed(
                f"connection refused: node connection limit ({start.connections_max}) is reached; "
                "connections-max sets it"
            )
        most = start.connections_address_max
        if most and self.count(network) >= most and network != THIS_MACHINE:
            raise NotAllowed(
                f"connection refused: address connection limit ({most}) of {network} is reached; "
                "connections-address-max sets it"
            )

    def add(self, number: int, user: str, vhost: str, network: str) -> None:
        """Count a connection."""
        self._open[number] = user, vhost, network
        _count(self._users, user, 1)
        _count(self._vhosts, vhost, 1)
        _count(self._networks, network, 1)

    def remove(self, number: int) -> bool:
        """Remove a connection; return whether it was counted."""
        counted = self._open.pop(number, None)
        if counted is None:
            return False
        user, vhost, network = counted
        _count(self._users, user, -1)
        _count(self._vhosts, vhost, -1)
        _count(self._networks, network, -1)
        return True

    def has(self, number: int) -> bool:
        """Return whether a connection is counted."""
        return number in self._open

    def connections_of(self, user: str) -> int:
        """Return the number of connections of a user."""
        return self._users.get(user, 0)

    def connections_to(self, vhost: str) -> int:
        """Return the number of connections to a virtual host."""
        return self._vhosts.get(vhost, 0)

    def count(self, network: str) -> int:
        """Return the number of connections of a network."""
        return self._networks.get(network, 0)


def _count(counts: dict[str, int], name: str, change: int) -> None:
    """Change a count; one of 0 is removed."""
    count = counts.get(name, 0) + change
    if count > 0:
        counts[name] = count
    else:
        del counts[name]
