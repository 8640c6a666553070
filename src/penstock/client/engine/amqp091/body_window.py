"""Window in bytes of a receiver of AMQP 0-9-1, where the broker counts messages alone.

Theory of operation. The bytes of a message are unknown until it has come, so the prefetch follows the largest body of
late: as many of them as fit into the window. A message that comes while more than the window waits is over it; the
receiver returns it to its queue. So what waits is the window and one message at most, whatever comes.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

PREFETCH_LIMIT: Final = 65_535
"""Most messages that basic.qos can ask for."""
PERIOD: Final = 1000
"""Messages after which the largest body of the ones before is forgotten."""


class BodyWindow:
    """Bodies that wait in a receiver, and the prefetch that keeps them within a window."""

    def __init__(self, window: i64, prefetch: i64) -> None:
        self.window: i64 = window
        """Octets that may wait."""
        self.most: i64 = min(prefetch, PREFETCH_LIMIT) if prefetch > 0 else PREFETCH_LIMIT
        """Most messages that are asked for."""
        self.waiting: i64 = 0
        """Octets that wait."""
        self.largest: i64 = 0
        """Octets of the largest body of this period; 0 before the first."""
        self.largest_before: i64 = 0
        """Octets of the largest body of the period before."""
        self.count: i64 = 0
        """Messages of this period."""

    def reset(self) -> None:
        """Begin with a new transport: nothing waits any more."""
        self.waiting = 0

    def observe(self, size: i64) -> None:
        """Take the size of a message that has come into account, for the prefetch."""
        if self.count >= PERIOD:
            self.largest_before = self.largest
            self.largest = 0
            self.count = 0
        self.count += 1
        self.largest = max(self.largest, size, 1)

    def takes(self, size: i64) -> bool:
        """Add a message to those that wait; return False for one that comes while more than the window waits."""
        if self.waiting > self.window:
            return False
        self.waiting += size
        return True

    def handed_over(self, size: i64) -> None:
        """Take a message off those that wait."""
        self.waiting -= size

    def prefetch(self) -> i64:
        """Return how many messages as the largest of late fit into the window; one before the first has come."""
        largest = max(self.largest, self.largest_before)
        return 1 if largest == 0 else max(1, min(self.most, self.window // largest))
