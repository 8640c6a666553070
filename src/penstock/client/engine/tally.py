"""Counts of a connection, and of its publishers and receivers that have ended."""

from __future__ import annotations


class Tally:
    """Counts of a connection itself, and of its ended publishers and receivers."""

    def __init__(self) -> None:
        self.opened: int = 0
        """Number of transports with a login."""
        self.lanes: int = 0
        """Number of lanes so far."""
        self.blocked: int = 0
        """Number of times that the broker has blocked the connection."""
        self.has_warned: bool = False
        """True after the warning of a time-out above the broker's hold deadline."""
        self.of_publishers: list[int] = []
        """As `PublisherCore.counts`; empty without any."""
        self.waited: float = 0.0
        """Seconds that their messages waited for room."""
        self.of_receivers: list[int] = []
        """As `ReceiverCore.counts`; empty without any."""

    def add_publisher(self, counts: list[int], waited: float) -> None:
        """Add the counts of a publisher that ends."""
        self.of_publishers = added(self.of_publishers, counts)
        self.waited += waited

    def add_receiver(self, counts: list[int]) -> None:
        """Add the counts of a receiver that ends."""
        self.of_receivers = added(self.of_receivers, counts)


def added(first: list[int], second: list[int]) -> list[int]:
    """Return the sums of two rows of counts; an empty row is all zeros."""
    if not first or not second:
        return first or second
    return [one + other for one, other in zip(first, second, strict=True)]
