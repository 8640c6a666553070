"""Limits of a connection: bounds and time-outs, each with its reason."""

from __future__ import annotations

from typing import Final

PULSING_S_MAX: Final = 60.0
"""Most seconds of pulses that are budgeted if there is no deadline, or a long one."""
SASL_MECHANISMS: Final = ("EXTERNAL", "SCRAM-SHA-256", "PLAIN", "AMQPLAIN", "ANONYMOUS")
"""Mechanisms for logins, the strongest first; many clients take the first that they know."""
AHEAD: Final = 4
"""Hold budgets that may be held until connection.blocked is written: 4 MiB is the largest send buffer of Linux."""
CHARGE_PER_OCTET: Final = 7
"""Highest charge per octet on the wire: the shortest publish has 39 octets and is charged a little over OVERHEAD."""


class ConnectionLimits:
    """Limits of connections. Set once at start; read by protocols and the event loop."""

    def __init__(self) -> None:
        self.frame_max: int = 131072
        """Largest frame in octets; RabbitMQ's default, which all clients accept."""
        self.initial_frame_max: int = 4096
        """Largest frame in octets before login; RabbitMQ's bound."""
        self.channel_max: int = 2047
        """Most channels of a connection; RabbitMQ's default."""
        self.heartbeat_s: int = 60
        """Seconds between heartbeats that the broker proposes; RabbitMQ's default."""
        self.message_bytes_max: int = 128 * 1024 * 1024
        """Largest body in octets; RabbitMQ's default."""
        self.min_large_message: int = 1024 * 1024
        """Octets from which on a body goes in pieces; 0 is never."""
        self.arriving_bytes_max: int = 256 * 1024 * 1024
        """Most octets of incomplete messages on a connection; twice the largest body."""
        self.hold_bytes: int = 1024 * 1024
        """Hold budget of a connection (charges); beyond, its reading is paused, or the next publish refused."""
        self.transaction_bytes: int = 16 * 1024 * 1024
        """Most bytes (charges) of uncommitted and held publishes of a connection with transactions.

        It is never paused, so the next publish is refused.
        """
        self.transaction_timeout_s: float = 1800.0
        """Seconds that a transaction of AMQP 1.0 may be open after its first message; RabbitMQ's consumer_timeout."""
        self.asked_bytes: int = 16 * 1024 * 1024
        """Hold budget that replaces `hold_bytes` after channel.flow(active=false): publishes are in flight."""
        self.pulse_bytes: int = 64 * 1024
        self.pulse_s: float = 0.3
        """Size and interval of the reads from a paused connection: py-amqp's socket fails when unread for a second."""
        self.flow_enforcement_s: float = 5.0
        """Seconds that a client has to stop after channel.flow; Broker-J's channel.flowControlEnforcementTimeout."""
        self.sasl_mechanisms: list[str] = list(SASL_MECHANISMS)
        self.insecure_mechanisms: list[str] = list(SASL_MECHANISMS)
        """Mechanisms that clients may be offered, in order; those of clients on other machines without TLS."""
        self.rabbitmq_version: str | None = None
        """Version of RabbitMQ that AMQP 1.0 clients are told, as RabbitMQ's own require; None: Penstock's."""
        self.handshake_s: float = 10.0
        """Seconds from connect to connection.open-ok; RabbitMQ's default."""
        self.connections_max: int = 0
        self.connections_address_max: int = 0
        """Most open connections, in all and of one network other than this machine; 0 is no limit."""
        self.handshakes_max: int = 1000
        """Most sockets that are not logged in, without those of this machine: 10 MiB in the worst case."""
        self.handshakes_address_max: int = 500
        """The same per address, and for this machine. Enough for workers that all start at once."""
        self.login_rate_max: int = 0
        self.login_rate_address_max: int = 0
        """Most logins a second, of all other machines (and of this one), and of one network; 0 is no limit."""
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

        This is the sum of what is held before connection.blocked and after it, what pulses read in the worst case, and
        one message.
        """
        pulses = self.pulsing_s(deadline_s) / self.pulse_s
        pulsed = int(pulses * self.pulse_bytes) * CHARGE_PER_OCTET
        return (AHEAD + 1) * self.hold_bytes + pulsed + self.message_bytes_max
