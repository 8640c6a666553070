"""Credit of a receiver: a window that settlement restores, or link credit that the receiver grants.

`Credit` is the prefetch window of a consumer or of a channel in AMQP 0-9-1; without a window it is unbounded.
`LinkCredit` is that of a link in AMQP 1.0. Both have the same methods. A delivery that is settled at once spends and
restores.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.level import UNLIMITED

NO_WINDOW: Final = 0
"""A window of 0 messages is "no bound", as in basic.qos (AMQP 0-9-1 section 1.7.2.1)."""
UNBOUNDED: Final = -1
"""A window of -1 bytes is "no bound", as Artemis' consumerWindowSize; one of 0 bytes is one message at a time."""
SERIAL: Final = 1 << 32
"""Delivery counts of a link are serial numbers with 32 bits (AMQP 1.0, section 2.8.10)."""


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

    def describe(self) -> str:
        """Return the reason why no messages are left, as a phrase."""
        return f"out of credit: {self.out} unacknowledged of a prefetch of {self.window}"


class LinkCredit(Credit):
    """Credit that the receiver of a link grants (AMQP 1.0, section 2.6.7), beside a window in bytes.

    A delivery spends it, and its settlement does not restore it. Only the bytes are restored.
    """

    __slots__ = ("delivery_count", "granted", "paused")

    def __init__(self, delivery_count: i64 = 0, window_bytes: i64 = UNBOUNDED) -> None:
        super().__init__(NO_WINDOW, window_bytes)
        self.delivery_count: i64 = delivery_count
        """The sender's delivery count: it advances with each delivery and with drained credit, and wraps around."""
        self.granted: i64 = 0
        """Messages that may still be sent."""
        self.paused: bool = False
        """True while a delivery is under way that nothing of the link may follow yet."""

    def grant(self, delivery_count: i64, link_credit: i64) -> None:
        """Replace the credit by what the receiver grants, counted from the delivery count that it has seen."""
        unseen = (self.delivery_count - delivery_count) % SERIAL
        if unseen >= SERIAL // 2:
            unseen -= SERIAL
        granted = link_credit - unseen
        self.granted = granted if granted > 0 else 0

    def take_back(self, messages: i64) -> None:
        """Undo the spending of messages that were not delivered after all."""
        self.granted += messages
        self.delivery_count = (self.delivery_count - messages) % SERIAL

    def drain(self) -> i64:
        """Remove the credit that is left, as if it were spent; returns how much it was."""
        drained = self.granted
        self.granted = 0
        self.delivery_count = (self.delivery_count + drained) % SERIAL
        return drained

    def bounded(self) -> bool:
        """See `Credit.bounded`: it is, always."""
        return True

    @override
    def left(self) -> i64:
        return 0 if self.paused else self.granted

    @override
    def spend(self, messages: i64, bytes: i64) -> None:
        self.out += messages
        self.out_bytes += bytes
        self.granted -= messages
        self.delivery_count = (self.delivery_count + messages) % SERIAL

    @override
    def describe(self) -> str:
        return "a large message is being sent on its link" if self.paused else "its receiver has granted no credit"
