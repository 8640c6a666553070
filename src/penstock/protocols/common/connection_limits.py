"""Limits of a connection, each with its reason, and of open connections: in total, by network, user and virtual host.

Channels are limited by user. Connections that are not logged in have bounds of their own (login_limits.py). Those of
this machine have none by network: an operator always gets in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.access.user import MAX_CHANNELS, MAX_CONNECTIONS
from penstock.errors import NotAllowed
from penstock.protocols.common.peer import THIS_MACHINE
from penstock.settings.start import OF_CONNECTIONS, Start

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection

PULSING_S_MAX: Final = 60.0
"""Most seconds of pulses that are budgeted if there is no deadline, or a long one."""
AHEAD: Final = 4
"""Hold budgets that may be held until connection.blocked is written: 4 MiB is the largest send buffer of Linux."""
CHARGE_PER_OCTET: Final = 7
"""Highest charge per octet on the wire: the shortest publish has 39 octets and is charged a little over OVERHEAD."""


class ConnectionLimits:
    """Limits of connections. Set once at start; read by protocols and the event loop.

    Those that are settings at the start are explained there (`settings.start`).
    """

    frame_max: int
    """Largest frame in octets; RabbitMQ's default, which all clients accept."""
    initial_frame_max: int
    """Largest frame in octets before login; RabbitMQ's bound."""
    channel_max: int
    heartbeat_s: int
    message_bytes_max: int
    min_large_message: int
    arriving_bytes_max: int
    """Most octets of incomplete messages on a connection; twice the largest body."""
    hold_bytes: int
    """Hold budget of a connection (charges); beyond, its reading is paused, or the next publish refused."""
    transaction_bytes: int
    """Most bytes (charges) of uncommitted and held publishes of a connection with transactions.

    It is never paused, so the next publish is refused.
    """
    transaction_timeout_s: float
    """RabbitMQ's consumer_timeout."""
    flow_enforcement_s: float
    sasl_mechanisms: list[str]
    insecure_mechanisms: list[str]
    rabbitmq_version: str | None
    handshake_s: float
    """Seconds from connect to connection.open-ok; RabbitMQ's default."""
    connections_max: int
    connections_address_max: int
    handshakes_max: int
    """Most sockets that are not logged in, without those of this machine: 10 MiB in the worst case."""
    handshakes_address_max: int
    """The same per address, and for this machine. Enough for workers that all start at once."""
    login_rate_max: int
    login_rate_address_max: int

    def __init__(self, start: Start | None = None) -> None:
        start = start or Start()
        for name in OF_CONNECTIONS:
            setattr(self, name, getattr(start, name))
        self.asked_bytes: int = 16 * 1024 * 1024
        """Hold budget that replaces `hold_bytes` after channel.flow(active=false): publishes are in flight."""
        self.pulse_bytes: int = 64 * 1024
        self.pulse_s: float = 0.3
        """Size and interval of the reads from a paused connection: py-amqp's socket fails when unread for a second."""
        self.close_s: float = 3.0
        """Seconds that a peer has to answer connection.close."""

    def pulsing_s(self, deadline_s: float) -> float:
        """Return the seconds for which a paused connection is read in pulses: the hold deadline, within a bound.

        A connection that is held longer has a queue with a longer deadline, or none, and is not read any more.
        """
        return min(deadline_s, PULSING_S_MAX) if deadline_s > 0 else PULSING_S_MAX

    def largest_arrival(self) -> int:
        """Return the most that one message may be charged while it arrives in pieces of a KiB, with a large header."""
        return self.message_bytes_max + self.message_bytes_max // 16 + 2 * self.frame_max

    def hold_bytes_most(self, deadline_s: float) -> int:
        """Return the bytes (charges) at which the next publish of a connection that only publishes is refused.

        This is the sum of the bytes held before connection.blocked and after it, the bytes read by pulses in the worst
        case, and one message.
        """
        pulses = self.pulsing_s(deadline_s) / self.pulse_s
        pulsed = int(pulses * self.pulse_bytes) * CHARGE_PER_OCTET
        return (AHEAD + 1) * self.hold_bytes + pulsed + self.message_bytes_max


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
