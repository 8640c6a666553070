"""What a receiver granted and a sender has not used up: the prefetch of a consumer or of a channel."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.flow.level import UNLIMITED

NO_WINDOW: Final = 0
"""A window of 0 messages is "no bound", as in basic.qos (AMQP 0-9-1 section 1.7.2.1)."""
UNBOUNDED: Final = -1
"""A window of -1 bytes is "no bound", as Artemis' consumerWindowSize; one of 0 bytes is one message at a time."""


class Credit:
    """A window in messages and one in bytes; what is out counts until it is settled."""

    __slots__ = ("window", "out", "window_bytes", "out_bytes")

    def __init__(self, window: i64 = NO_WINDOW, window_bytes: i64 = UNBOUNDED) -> None:
        self.window: i64 = window
        self.out: i64 = 0
        self.window_bytes: i64 = window_bytes
        self.out_bytes: i64 = 0
        """Charges of what is out."""

    def bounded(self) -> bool:
        """Tell whether there is any bound."""
        return self.window != NO_WINDOW or self.window_bytes >= 0

    def left(self) -> i64:
        """Return how many more may go out; never negative, for a window may be made smaller while in use."""
        if self.window == NO_WINDOW:
            return UNLIMITED
        return self.window - self.out if self.window > self.out else 0

    def admits(self, messages: i64, bytes: i64, charge: i64) -> bool:
        """Tell whether one more message may go out besides these, as far as bytes matter: alone it always may."""
        if self.window_bytes < 0 or self.out + messages == 0:
            return True
        return self.out_bytes + bytes + charge <= self.window_bytes

    def spend(self, messages: i64, bytes: i64) -> None:
        """Count messages that went out."""
        self.out += messages
        self.out_bytes += bytes

    def restore(self, messages: i64, bytes: i64) -> None:
        """Count messages that were settled."""
        self.out -= messages
        self.out_bytes -= bytes
