"""Clients of a node that are in its shards: counts by user, network and virtual host, and the limits of the node.

A client counts from the moment at which the node gives it away, until its shard reports the end. At a limit the node
asks its shards for ends first, so a client that connects again is not refused for its former connection. The clients of
a shard whose process has ended are gone with the process.

A client with TLS that goes to a shard before its login is counted by the shard alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.connections.connection_counts import ConnectionCounts
from penstock.connections.peer import network_of
from penstock.driver.driver import BrokerDriver
from penstock.server.login_record import LoginRecord


class OpenClients:
    """Clients that one node has given to its shards."""

    def __init__(self, driver: BrokerDriver) -> None:
        """`driver` has the limits: its table of users is a copy of the catalogue."""
        self._access = driver.broker.access
        self._counts = ConnectionCounts(driver.connection_limits)
        self._taken: dict[str, set[int]] = {}
        """Numbers of the clients that processes have, by shard."""

    def total(self) -> int:
        """Return the number of clients."""
        return self._counts.total()

    def enter(self, record: LoginRecord, vhost: str) -> None:
        """Count a client that is to be given away. Raises NotAllowed (530) at a limit."""
        network = network_of(record.address.rpartition(":")[0], record.loopback)
        self._counts.check(self._access, record.user, vhost, network)
        self._counts.add(record.number, record.user, vhost, network)

    def leave(self, number: int) -> None:
        """Remove a client that no shard has taken, nor will."""
        self._counts.remove(number)

    def taken(self, number: int, shard: str) -> None:
        """Record that the process of a shard has a client, or may have it; the client may have ended already."""
        if self._counts.has(number):
            self._taken.setdefault(shard, set()).add(number)

    def ended(self, shard: str, numbers: Iterable[int]) -> None:
        """Remove clients whose ends a shard has reported."""
        taken = self._taken.get(shard, set())
        for number in numbers:
            taken.discard(number)
            self._counts.remove(number)

    def shard_ended(self, shard: str) -> None:
        """Remove the clients of a process that has ended."""
        for number in self._taken.pop(shard, ()):
            self._counts.remove(number)
