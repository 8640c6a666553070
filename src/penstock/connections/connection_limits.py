"""Limits of a connection, each with its reason. login_limits.py has the limits of open connections and of logins."""

from __future__ import annotations

from typing import Final

from penstock.settings.start import OF_CONNECTIONS, Start

PULSING_S_MAX: Final = 60.0
"""Most seconds of pulses that are budgeted if there is no deadline, or a long one."""
AHEAD: Final = 4
"""Hold budgets that may be held before connection.blocked is written: 4 MiB is the largest send buffer of Linux."""
CHARGE_PER_OCTET: Final = 7
"""Highest charge per byte on the wire: the shortest publish has 39 bytes and is charged a little over OVERHEAD."""


class ConnectionLimits:
    """Limits of connections. Set once at start; read by protocols and the event loop.

    `settings.start` explains the limits that are start-up settings.
    """

    frame_max: int
    """Largest frame in bytes; RabbitMQ's default, which all clients accept."""
    initial_frame_max: int
    """Largest frame in bytes before login; RabbitMQ's bound."""
    channel_max: int
    heartbeat_s: int
    message_bytes_max: int
    min_large_message: int
    arriving_bytes_max: int
    """Most bytes of incomplete messages on a connection; twice the largest body."""
    hold_bytes: int
    """Hold budget of a connection (charges); beyond, reading is paused, or the next publish refused."""
    transaction_bytes: int
    """Most bytes (charges) of uncommitted and held publishes of a connection with transactions.

    Such a connection is never paused, so the next publish is refused.
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
    """Most sockets that are not logged in, except sockets of this machine: 10 MiB in the worst case."""
    handshakes_address_max: int
    """The same per address, and for this machine. Enough for workers that all start at once."""
    login_rate_max: int
    login_rate_address_max: int

    def __init__(self, start: Start | None = None) -> None:
        start = start or Start()
        for name in OF_CONNECTIONS:
            setattr(self, name, getattr(start, name))
        self.asked_bytes: int = 16 * 1024 * 1024
        """Hold budget that replaces `hold_bytes` after channel.flow(active=false), for publishes in flight."""
        self.pulse_bytes: int = 64 * 1024
        self.pulse_s: float = 0.3
        """Size and interval of the reads from a paused connection: py-amqp's socket fails when unread for a second."""
        self.close_s: float = 3.0
        """Seconds that a peer has to answer connection.close."""

    def pulsing_s(self, deadline_s: float) -> float:
        """Return the seconds for which a paused connection is read in pulses: the hold deadline, within a bound.

        A connection that is held longer has a queue with a longer deadline, or without one, and is no longer read.
        """
        return min(deadline_s, PULSING_S_MAX) if deadline_s > 0 else PULSING_S_MAX

    def largest_arrival(self) -> int:
        """Return the highest charge of a message that arrives in pieces of a KiB, with a large header."""
        return self.message_bytes_max + self.message_bytes_max // 16 + 2 * self.frame_max

    def hold_bytes_most(self, deadline_s: float) -> int:
        """Return the bytes (charges) at which the next publish of a connection that only publishes is refused.

        The number is the sum of the bytes held before connection.blocked and after it, the bytes read by pulses in the
        worst case, and one message.
        """
        pulses = self.pulsing_s(deadline_s) / self.pulse_s
        pulsed = int(pulses * self.pulse_bytes) * CHARGE_PER_OCTET
        return (AHEAD + 1) * self.hold_bytes + pulsed + self.message_bytes_max
