"""What a receiver granted and a sender has not used up: the prefetch of a consumer or of a channel."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.flow.level import UNLIMITED

NO_WINDOW: Final = 0
"""A window of 0 is "no bound", as in basic.qos (AMQP 0-9-1 section 1.7.2.1)."""


class Credit:
    """A window in messages; what is out counts until it is settled."""

    __slots__ = ("window", "out")

    def __init__(self, window: i64 = NO_WINDOW) -> None:
        self.window: i64 = window
        self.out: i64 = 0

    def left(self) -> i64:
        """Return how many more may go out; never negative, for a window may be made smaller while in use."""
        if self.window == NO_WINDOW:
            return UNLIMITED
        return self.window - self.out if self.window > self.out else 0

    def spend(self, messages: i64) -> None:
        """Count messages that went out."""
        self.out += messages

    def restore(self, messages: i64) -> None:
        """Count messages that were settled."""
        self.out -= messages
