"""Traffic of a connection: the octets that its socket brought and took, and how fast they came and went.

Of a connection with TLS these are the octets inside of it. What a paused socket has not brought yet is not counted.
"""

from __future__ import annotations

from mypy_extensions import i64


class Traffic:
    """Counts of octets, of reads and of writes; they only grow."""

    def __init__(self) -> None:
        self.received: i64 = 0
        self.sent: i64 = 0
        """Octets."""
        self.reads: i64 = 0
        self.writes: i64 = 0
        """Reads from the socket that brought some, and writes to it: RabbitMQ calls them packets."""
        self.received_rate: float = 0.0
        self.sent_rate: float = 0.0
        """Octets a second between the last two samples."""
        self._received_before: i64 = 0
        self._sent_before: i64 = 0
        self._sampled: float = -1.0
        """Time of the last sample (monotonic seconds), and what was counted then; -1.0 before the first."""

    def count_received(self, octets: i64) -> None:
        """Count a read."""
        self.received += octets
        self.reads += 1

    def count_sent(self, octets: i64) -> None:
        """Count a write."""
        self.sent += octets
        self.writes += 1

    def add(self, other: Traffic) -> None:
        """Add the counts of a connection that ends."""
        self.received += other.received
        self.sent += other.sent
        self.reads += other.reads
        self.writes += other.writes

    def sample(self, now: float, opened: float) -> None:
        """Set the rates: since the last sample, or since the connection was opened."""
        before = self._sampled if self._sampled >= 0.0 else opened
        seconds = now - before
        if seconds > 0.0:
            self.received_rate = float(self.received - self._received_before) / seconds
            self.sent_rate = float(self.sent - self._sent_before) / seconds
            self._received_before = self.received
            self._sent_before = self.sent
            self._sampled = now
