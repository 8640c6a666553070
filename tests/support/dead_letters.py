"""Deaths of messages."""

from __future__ import annotations

from penstock.core.deaths import DeathRecord


def died(queue: str, reason: str = "rejected") -> DeathRecord:
    """Return a death in a queue, nearly six seconds after the epoch."""
    return DeathRecord(queue, reason, "in", "key", 5.9)
