"""Times of a connection, in monotonic seconds of the broker's clock, and the reason of its end."""

from __future__ import annotations


class ConnectionTimes:
    """Times of one connection."""

    def __init__(self, now: float) -> None:
        self.opened: float = now
        self.received: float = now
        """Time of the last input, or at which the broker last left input unread."""
        self.sent: float = now
        """Time of the last output."""
        self.closed: float = 0.0
        """Time of the close; bounds the wait for its answer. 0.0 before."""

        self.ending: str = ""
        """Reason of its end for the log; empty while it is open, or if its socket was closed."""

    def left_unread(self, now: float) -> None:
        """Record that the broker read nothing, so silence proves nothing about the peer."""
        self.received = now
