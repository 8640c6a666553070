"""Credit of a receiver in messages and bytes: the prefetch window of a consumer or of a channel."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.flow.level import UNLIMITED

NO_WINDOW: Final = 0
"""A window of 0 messages is "no bound", as in basic.qos (AMQP 0-9-1 section 1.7.2.1)."""
UNBOUNDED: Final = -1
"""A window of -1 bytes is "no bound", as Artemis' consumerWindowSize; one of 0 bytes is one message at a time."""


class Credit:
    """A window in messages and one in bytes; a delivery uses both until it is settled."""

    __slots__ = ("window", "out", "window_bytes", "out_bytes")

    def __init__(self, window: i64 = NO_WINDOW, window_bytes: i64 = UNBOUNDED) -> None:
        self.window: i64 = window
        self.out: i64 = 0
        self.window_bytes: i64 = window_bytes
        self.out_bytes: i64 = 0
        """Charges of the unsettled deliveries."""

    def bounded(self) -> bool:
        """Return whether either window is bounded."""
        return self.window != NO_WINDOW or self.window_bytes >= 0

    def left(self) -> i64:
        """Return the messages that may still be sent; 0 if the window was made smaller than its use."""
        if self.window == NO_WINDOW:
            return UNLIMITED
        return self.window - self.out if self.window > self.out else 0

    def admits(self, messages: i64, bytes: i64, charge: i64) -> bool:
        """Return whether the byte window admits one more message besides these; a single message always fits."""
        if self.window_bytes < 0 or self.out + messages == 0:
            return True
        return self.out_bytes + bytes + charge <= self.window_bytes

    def spend(self, messages: i64, bytes: i64) -> None:
        """Count deliveries."""
        self.out += messages
        self.out_bytes += bytes

    def restore(self, messages: i64, bytes: i64) -> None:
        """Count settlements."""
        self.out -= messages
        self.out_bytes -= bytes
