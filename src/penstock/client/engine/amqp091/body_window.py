"""Window in bytes of a receiver of AMQP 0-9-1, if the broker counts only messages.

Theory of operation. The bytes of a message are unknown until it has arrived, so the prefetch follows the recent largest
body: as many of this size as fit into the window. A message that arrives while more than the window waits is over the
window; the receiver returns it to its queue. So at most the window and one message wait, whatever the sizes.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

PREFETCH_LIMIT: Final = 65_535
"""Largest prefetch of basic.qos."""
PERIOD: Final = 1000
"""Messages after which the largest body of earlier messages is forgotten."""


class BodyWindow:
    """Waiting bodies of a receiver, and the prefetch that keeps them within a window."""

    def __init__(self, window: i64, prefetch: i64) -> None:
        self.window: i64 = window
        """Most bytes that may wait."""
        self.most: i64 = min(prefetch, PREFETCH_LIMIT) if prefetch > 0 else PREFETCH_LIMIT
        """Largest prefetch."""
        self.waiting: i64 = 0
        """Bytes that wait."""
        self.largest: i64 = 0
        """Bytes of the largest body of this period; 0 before the first."""
        self.largest_before: i64 = 0
        """Bytes of the largest body of the previous period."""
        self.count: i64 = 0
        """Messages of this period."""

    def reset(self) -> None:
        """Begin with a new transport: no message waits any more."""
        self.waiting = 0

    def observe(self, size: i64) -> None:
        """Count the size of a message that has arrived, for the prefetch."""
        if self.count >= PERIOD:
            self.largest_before = self.largest
            self.largest = 0
            self.count = 0
        self.count += 1
        self.largest = max(self.largest, size, 1)

    def takes(self, size: i64) -> bool:
        """Add a message to the waiting messages; return False if more than the window waits already."""
        if self.waiting > self.window:
            return False
        self.waiting += size
        return True

    def handed_over(self, size: i64) -> None:
        """Remove a message from the waiting messages."""
        self.waiting -= size

    def prefetch(self) -> i64:
        """Return how many messages of the recent largest size fit into the window; 1 before the first message."""
        largest = max(self.largest, self.largest_before)
        return 1 if largest == 0 else max(1, min(self.most, self.window // largest))
