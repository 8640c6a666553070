"""What the broker grants a connection: bounds and time-outs, one line of reason each."""

from __future__ import annotations

from typing import Final

PULSING_S_MAX: Final = 60.0
"""Seconds of pulses that are allowed for where there is no deadline, or a long one."""
CHARGE_PER_OCTET: Final = 7
"""What an octet on the wire may be charged: the shortest publish is 39 octets and charged OVERHEAD and a little."""


class ConnectionLimits:
    """Bounds of connections. Set once at start; read by adapters and the event loop."""

    def __init__(self) -> None:
        self.frame_max: int = 131072
        """Octets of the largest frame; RabbitMQ's default, which all clients accept."""
        self.initial_frame_max: int = 4096
        """Octets of the largest frame before the client has logged in; RabbitMQ's bound: it needs less than one KiB."""
        self.channel_max: int = 2047
        """Channels of a connection; RabbitMQ's default."""
        self.heartbeat_s: int = 60
        """Seconds between heartbeats that are offered; RabbitMQ's default."""
        self.message_bytes_max: int = 128 * 1024 * 1024
        """Octets of the largest body; RabbitMQ's default."""
        self.arriving_bytes_max: int = 256 * 1024 * 1024
        """Octets of messages that have begun to arrive on a connection and are not whole; twice the largest body."""
        self.hold_bytes: int = 1024 * 1024
        """Held publishes of a connection (charges) at which its reading is paused, or, if it also consumes, the next
        publish is refused: enough for a second of a fast client, small against a queue."""
        self.transaction_bytes: int = 16 * 1024 * 1024
        """Publishes (charges) that a connection with transactions may have kept for its commits or held, all together:
        it is never paused, so the next one is refused."""
        self.asked_bytes: int = 16 * 1024 * 1024
        """Takes the place of `hold_bytes` while a channel is asked to stop by channel.flow: what was under way when the
        client heard it (two sockets' buffers) is no fault of its own, and the end of it must be read to see it obey."""
        self.pulse_bytes: int = 64 * 1024
        self.pulse_s: float = 0.3
        """What is read from a paused connection, and how often.

        Py-amqp's socket dies when nothing is read for a second.
        """
        self.flow_enforcement_s: float = 5.0
        """Seconds that a client gets to stop after channel.flow; Broker-J's channel.flowControlEnforcementTimeout."""
        self.handshake_s: float = 10.0
        """Seconds from connect to connection.open-ok; RabbitMQ's default."""
        self.handshakes_max: int = 1000
        """Sockets that have not logged in, of all addresses but this machine's: 10 MiB at the very worst."""
        self.handshakes_address_max: int = 500
        """The same, of one address; this machine has as many for itself. Workers that all start at once fit."""
        self.close_s: float = 3.0
        """Seconds that a peer has to answer connection.close."""

    def pulsing_s(self, deadline_s: float) -> float:
        """Return for how long a paused connection is read in pulses: the broker's own hold deadline, within a bound.

        Who is held longer has a queue with a longer deadline, or none, and is not read any more.
        """
        return min(deadline_s, PULSING_S_MAX) if deadline_s > 0 else PULSING_S_MAX

    def largest_arrival(self) -> int:
        """Return what the largest message may count with while it arrives in pieces of a KiB, with a large header."""
        return self.message_bytes_max + self.message_bytes_max // 16 + 2 * self.frame_max

    def hold_bytes_most(self, deadline_s: float) -> int:
        """Return the bytes (charges) at which the next publish of a connection that only publishes is refused.

        The bound, what pulses bring in at the very worst, and the message that it is about to send.
        """
        pulses = self.pulsing_s(deadline_s) / self.pulse_s
        return self.hold_bytes + int(pulses * self.pulse_bytes) * CHARGE_PER_OCTET + self.message_bytes_max
