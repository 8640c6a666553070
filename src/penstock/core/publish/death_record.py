"""Dead letters: what is written on a message that died, and by whom."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"
"""Reasons, as RabbitMQ writes them: a consumer refused it, it was too old, its queue had no room, it came back from
consumers too often."""


class DeathRecord:
    """How a message died."""

    __slots__ = ("queue", "reason", "exchange", "routing_key", "now", "rerouted")

    def __init__(
        self, queue: str, reason: str, exchange: str, routing_key: str, now: float, rerouted: bool = False
    ) -> None:
        self.queue = queue
        self.reason = reason
        self.exchange = exchange
        """What it had been published to, with which routing key."""
        self.routing_key = routing_key
        self.now = now
        """When: seconds of the broker's monotonic clock."""
        self.rerouted = rerouted
        """Whether the queue has a routing key for its dead: further ones in the message (CC) are taken off."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DeathHeaderCodec:
    """Reads contents in their publisher's protocol, and writes deaths on them; without one, nothing is written."""

    def body_bytes(self, content: bytes) -> i64:
        """Return how many octets of a content are the body."""
        return len(content)

    def write(self, content: bytes, death: DeathRecord) -> bytes | None:
        """Return the content with a death written on it; None where nothing can be written on it."""
        return content

    def deaths(self, content: bytes) -> list[tuple[str, str]]:
        """Return the deaths that are written on a message, the last one first: queue and reason, each pair once."""
        return []

    def copies(self, content: bytes) -> list[str]:
        """Return the routing keys that a message names besides that of its address (CC)."""
        return []

    def headers(self, content: bytes) -> dict[str, object]:
        """Return the headers by which an exchange may route it."""
        return {}
