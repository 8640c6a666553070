"""Connections that are not logged in: bounds per address and in total.

Theory of operation. Such a connection costs a socket and some KiB, so their number is bounded per address and in total.
Clients that open sockets and never log in affect others as follows:

- At other addresses not at all. At the total bound the address with the most loses its oldest connection, so an address
  with few gets in.
- At the same address little. A connection older than a login takes gives way to a new one. The new one is refused only
  if all are younger.
- This machine has a share of its own, so an operator always gets in.

A connection whose handshake of TLS is not over goes first of all. Its client has said hello, and need not be able to
answer. Such ones have at most a half of what an address may have, so that its clients without TLS get in beside a flood
of hellos. Beyond, the oldest of them gives way however young it is.

A connection whose credentials wait for a verdict has done its part, and goes after those that have sent none. That
holds for as many of an address as one may reasonably have, `VERIFYING_SPARED`. Otherwise a flood of logins would shut
all others out.
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
VERIFYING_SPARED: Final = 16
"""Logins of an address that do not count where they wait for a verdict, as many as answers may (login_backoff.py)."""


HELLO_PART: Final = 2
"""Part (a half) of the connections of an address that may be handshakes of TLS."""


class NetworkLogins:
    """Connections of one network that are not logged in."""

    def __init__(self) -> None:
        self.hellos: dict[int, Connection] = {}
        """By number, the oldest first: those whose handshake of TLS is not over."""
        self.silent: dict[int, Connection] = {}
        """By number, the oldest first: those that have sent no credentials, and after them those that were refused."""
        self.verifying: dict[int, Connection] = {}
        """By number, the first in the line first: those whose credentials wait for a verdict."""

    def count(self) -> int:
        """Return the number of connections."""
        return len(self.hellos) + len(self.silent) + len(self.verifying)

    def claim(self) -> int:
        """Return the number that counts when one of all networks must give way."""
        return len(self.hellos) + len(self.silent) + max(0, len(self.verifying) - VERIFYING_SPARED)

    def oldest(self, opened_by: float, hello_by: float) -> Connection | None:
        """Return the one to give way, if it was there at a time: a handshake first, those that are verified last.

        `hello_by` is the time for handshakes.
        """
        found = _first_of(self.hellos, hello_by)
        if found is None:
            found = _first_of(self.silent, opened_by)
        if found is None and len(self.verifying) > VERIFYING_SPARED:
            found = _first_of(self.verifying, opened_by)
        return found


class PendingLogins:
    """Registry of connections from connect to successful login, or to their end."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._waiting: dict[str, NetworkLogins] = {}
        """By network."""
        self._abroad: int = 0
        """Number of those that are not of this machine."""
        self._turned_away: list[Connection] = []

    def count(self, network: str) -> int:
        """Return the number of pending logins of a network."""
        waiting = self._waiting.get(network)
        return 0 if waiting is None else waiting.count()

    def enter(self, connection: Connection) -> None:
        """Add a connection; beyond a bound one is dropped, the new one or another."""
        network = connection.peer.network
        waiting = self._waiting.setdefault(network, NetworkLogins())
        policy = self._services.connection_limits
        if network != THIS_MACHINE:
            self._abroad += 1
        if connection.peer.securing:
            self._enter_hello(waiting, connection)
        else:
            waiting.silent[connection.number] = connection
        if waiting.count() > policy.handshakes_address_max:
            most = policy.handshakes_address_max
            self._turn_away(
                self._slowest(waiting, connection, LOGIN_S), f"{most} of its address, handshakes-address-max"
            )
        elif network != THIS_MACHINE and self._abroad > policy.handshakes_max:
            crowd = self._crowd(waiting)
            age_s = 0.0 if crowd.claim() > waiting.claim() else LOGIN_S
            self._turn_away(
                self._slowest(crowd, connection, age_s), f"{policy.handshakes_max} of all addresses, handshakes-max"
            )

    def _enter_hello(self, waiting: NetworkLogins, connection: Connection) -> None:
        """Add a connection whose handshake of TLS begins; beyond its share the oldest such one is dropped."""
        most = max(1, self._services.connection_limits.handshakes_address_max // HELLO_PART)
        if len(waiting.hellos) >= most:
            oldest = next(iter(waiting.hellos.values()))
            self._turn_away(oldest, f"{most} handshakes of TLS of its address, a part of handshakes-address-max")
            self._waiting.setdefault(connection.peer.network, waiting)
        waiting.hellos[connection.number] = connection

    def end_handshake(self, connection: Connection) -> None:
        """Record that the handshake of TLS of a connection is over."""
        connection.peer.securing = False
        waiting = self._waiting.get(connection.peer.network)
        if waiting is not None and waiting.hellos.pop(connection.number, None) is not None:
            waiting.silent[connection.number] = connection

    def await_verdict(self, connection: Connection) -> None:
        """Record that the credentials of a connection have come, and are being verified."""
        waiting = self._waiting.get(connection.peer.network)
        if waiting is not None and waiting.silent.pop(connection.number, None) is not None:
            waiting.verifying[connection.number] = connection

    def end_verdict(self, connection: Connection) -> None:
        """Record that the credentials of a connection were verified; one that is refused may still be there."""
        waiting = self._waiting.get(connection.peer.network)
        if waiting is not None and waiting.verifying.pop(connection.number, None) is not None:
            waiting.silent[connection.number] = connection

    def leave(self, connection: Connection) -> None:
        """Remove a connection that has logged in or is closed. Repeating it changes nothing."""
        network, number = connection.peer.network, connection.number
        waiting = self._waiting.get(network)
        if waiting is None:
            return
        known = waiting.hellos.pop(number, None) or waiting.silent.pop(number, None)
        if known is None and waiting.verifying.pop(number, None) is None:
            return
        if network != THIS_MACHINE:
            self._abroad -= 1
        if not waiting.count():
            del self._waiting[network]

    def take_turned_away(self) -> list[Connection]:
        """Take the connections whose sockets must be closed."""
        turned_away = self._turned_away
        if turned_away:
            self._turned_away = []
        return turned_away

    def _slowest(self, waiting: NetworkLogins, newcomer: Connection, age_s: float) -> Connection:
        """Return the one of these that gives way, if it has been there for so many seconds, else the new one."""
        now = self._services.broker.now
        hello_age_s = age_s if newcomer.peer.securing else 0.0
        oldest = waiting.oldest(now - age_s, now - hello_age_s)
        return newcomer if oldest is None else oldest

    def _crowd(self, of_newcomer: NetworkLogins) -> NetworkLogins:
        """Return the network whose claim is the largest; on a tie, the one that has had any for longest."""
        found, most = of_newcomer, 0
        for network, waiting in self._waiting.items():
            if network != THIS_MACHINE and waiting.claim() > most:
                found, most = waiting, waiting.claim()
        return found

    def _turn_away(self, connection: Connection, bound: str) -> None:
        self.leave(connection)
        self._turned_away.append(connection)
        line = f"[{connection.name()}] turned away: too many connections have not logged in ({bound})"
        self._services.log_refusal(SOCKET, line)


def _first_of(connections: dict[int, Connection], opened_by: float) -> Connection | None:
    """Return the first one if it was there at a time."""
    for connection in connections.values():
        return connection if connection.times.opened <= opened_by else None
    return None
