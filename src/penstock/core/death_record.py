"""Death records: the reason and origin written on a dead letter."""

from __future__ import annotations

from typing import Final

REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"
"""Reasons, as RabbitMQ writes them: rejected, expired, maxlen, delivery_limit."""


class DeathRecord:
    """The circumstances of a message's death."""

    __slots__ = ("queue", "reason", "exchange", "routing_key", "time", "rerouted")

    def __init__(
        self, queue: str, reason: str, exchange: str, routing_key: str, time: float, rerouted: bool = False
    ) -> None:
        self.queue = queue
        self.reason = reason
        self.exchange = exchange
        """Exchange and routing keys of its publish."""
        self.routing_key = routing_key
        self.time = time
        """Time of death: seconds since the epoch."""
        self.rerouted = rerouted
        """True if the queue sets a routing key for dead letters: further ones in the message (CC) are removed."""
