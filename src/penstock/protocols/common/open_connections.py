"""Open connections: bounds in total and by network.

Connections that are not logged in have bounds of their own (pending_logins.py). Those of this machine have none by
network: an operator always gets in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

    def total(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def enter(self, connection: Connection) -> None:
        """Count a connection that opens. Raises NotAllowed (530), as RabbitMQ, at a bound."""
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

    def leave(self, connection: Connection) -> None:
        """Forget a connection, if it was counted."""
        network = self._open.pop(connection.number, None)
        if network is None:
            return
        count = self._networks[network] - 1
        if count > 0:
            self._networks[network] = count
        else:
            del self._networks[network]

    def count(self, network: str) -> int:
        """Return the number of connections of a network."""
        return self._networks.get(network, 0)
