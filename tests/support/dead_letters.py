"""Deaths of messages."""

from __future__ import annotations

from penstock.core.deaths import DeathRecord


def died(queue: str, reason: str = "rejected", again: bool = True) -> DeathRecord:
    """Return a death in a queue, nearly six seconds after the epoch; by default of a dead letter."""
    return DeathRecord(queue, reason, "in", "key", 5.9, again=again)
