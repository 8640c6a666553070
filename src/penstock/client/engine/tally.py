"""Counts of a connection: what is counted anyway, added up when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.engine.publisher import PublisherCore
    from penstock.client.engine.receiver import ReceiverCore


class Tally:
    """Counts of a connection's own, and of the publishers and receivers that have ended."""

    def __init__(self) -> None:
        self.opened: int = 0
        """Transports that were logged in on."""
        self.blocked: int = 0
        """Times that the broker has blocked the connection."""
        self.has_warned: bool = False
        """True after the warning of a time-out that is longer than the broker's."""
        self.of_publishers: list[int] = []
        """As `PublisherCore.counts`; empty without any."""
        self.waited: float = 0.0
        """Seconds that their messages waited for room."""
        self.of_receivers: list[int] = []
        """As `ReceiverCore.counts`; empty without any."""

    def add_publisher(self, publisher: PublisherCore) -> None:
        """Keep the counts of a publisher that ends."""
        self.of_publishers = added(self.of_publishers, publisher.counts())
        self.waited += publisher.waited

    def add_receiver(self, receiver: ReceiverCore) -> None:
        """Keep the counts of a receiver that ends."""
        self.of_receivers = added(self.of_receivers, receiver.counts())


def added(first: list[int], second: list[int]) -> list[int]:
    """Return the sums of two rows of counts; an empty one is all zeros."""
    if not first or not second:
        return first or second
    return [one + other for one, other in zip(first, second, strict=True)]
