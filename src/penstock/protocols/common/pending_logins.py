"""Connections that are not logged in: bounds per address and in total.

Theory of operation. Such a connection costs a socket and some KiB, so their number is bounded per address and in total.
Clients that open sockets and never log in affect others as follows:

- At other addresses not at all. At the total bound the address with the most loses its oldest connection, so an address
  with few always gets in.
- At the same address little. A connection older than a login takes gives way to a new one. The new one is refused only
  if all are younger.
- This machine has a share of its own, so an operator always gets in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.protocols.common.peer import THIS_MACHINE
from penstock.protocols.common.refusal_log import SOCKET

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection
    from penstock.protocols.common.services import Services

LOGIN_S: Final = 2.0
"""Seconds after which a connection gives way to a newer one of its address: a few round trips around the world."""


class PendingLogins:
    """Registry of connections from connect to successful login, or to their end."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._waiting: dict[str, dict[int, Connection]] = {}
        """By network, then by number: the oldest first."""
        self._abroad: int = 0
        """Number of those that are not of this machine."""
        self._turned_away: list[Connection] = []

    def count(self, network: str) -> int:
        """Return the number of pending logins of a network."""
        return len(self._waiting.get(network, ()))

    def enter(self, connection: Connection) -> None:
        """Add a connection; beyond a bound one is dropped, the new one or another."""
        network = connection.peer.network
        waiting = self._waiting.setdefault(network, {})
        waiting[connection.number] = connection
        policy = self._services.connection_limits
        if network != THIS_MACHINE:
            self._abroad += 1
        if len(waiting) > policy.handshakes_address_max:
            most = policy.handshakes_address_max
            self._turn_away(self._slowest(waiting, connection), f"{most} of its address, handshakes-address-max")
        elif network != THIS_MACHINE and self._abroad > policy.handshakes_max:
            crowd = self._crowd()
            one = next(iter(crowd.values())) if len(crowd) > len(waiting) else self._slowest(crowd, connection)
            self._turn_away(one, f"{policy.handshakes_max} of all addresses, handshakes-max")

    def leave(self, connection: Connection) -> None:
        """Remove a connection that has logged in or is closed. Repeating it changes nothing."""
        network = connection.peer.network
        waiting = self._waiting.get(network)
        if waiting is None or waiting.pop(connection.number, None) is None:
            return
        if network != THIS_MACHINE:
            self._abroad -= 1
        if not waiting:
            del self._waiting[network]

    def take_turned_away(self) -> list[Connection]:
        """Take the connections whose sockets must be closed."""
        turned_away = self._turned_away
        if turned_away:
            self._turned_away = []
        return turned_away

    def _slowest(self, waiting: dict[int, Connection], newcomer: Connection) -> Connection:
        """Return the oldest of these if it has had more time than a login takes, else the new one."""
        oldest = next(iter(waiting.values()))
        return oldest if self._services.broker.now - oldest.times.opened >= LOGIN_S else newcomer

    def _crowd(self) -> dict[int, Connection]:
        """Return the connections of the network with the most; on a tie, of the one that has had any for longest."""
        found: dict[int, Connection] = {}
        for network, waiting in self._waiting.items():
            if network != THIS_MACHINE and len(waiting) > len(found):
                found = waiting
        return found

    def _turn_away(self, connection: Connection, bound: str) -> None:
        self.leave(connection)
        self._turned_away.append(connection)
        line = f"[{connection.name()}] turned away: too many connections have not logged in ({bound})"
        self._services.log_refusal(SOCKET, line)
