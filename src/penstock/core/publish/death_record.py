"""Death records: the reason and origin written on a dead letter."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"
"""Reasons, as RabbitMQ writes them: rejected, expired, maxlen, delivery_limit."""


class DeathRecord:
    """The circumstances of a message's death."""

    __slots__ = ("queue", "reason", "exchange", "routing_key", "now", "rerouted")

    def __init__(
        self, queue: str, reason: str, exchange: str, routing_key: str, now: float, rerouted: bool = False
    ) -> None:
        self.queue = queue
        self.reason = reason
        self.exchange = exchange
        """Exchange and routing keys of its publish."""
        self.routing_key = routing_key
        self.now = now
        """Time of death: seconds of the broker's monotonic clock."""
        self.rerouted = rerouted
        """True if the queue sets a routing key for dead letters: further ones in the message (CC) are removed."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DeathHeaderCodec:
    """Reads contents in their publisher's protocol, and writes death records on them; this default writes nothing."""

    def body_bytes(self, content: bytes) -> i64:
        """Return the octets of a content's body."""
        return len(content)

    def write(self, content: bytes, death: DeathRecord) -> bytes | None:
        """Return the content with a death record; None if the format cannot carry one."""
        return content

    def deaths(self, content: bytes) -> list[tuple[str, str]]:
        """Return the death records of a message, the last one first: queue and reason, each pair once."""
        return []

    def copies(self, content: bytes) -> list[str]:
        """Return the additional routing keys of a message (CC)."""
        return []

    def headers(self, content: bytes) -> dict[str, object]:
        """Return the headers that exchanges route by."""
        return {}
