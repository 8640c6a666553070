"""Differences from RabbitMQ that are known and meant, each with its sentence; a sequence ends at the first of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.method_sequences import Step

Seen = Any


def leaving(where: Any, ours: Seen, theirs: Seen) -> bool:
    """Tell whether all that differs is what a channel was given that has been closed."""
    return isinstance(where, tuple) and where[1] > 0 and not ours[0] and not theirs[0] and ours[1] == theirs[1]


def expires_at_once(step: Step) -> bool:
    """Tell whether a step publishes a message that nobody can be in time for."""
    properties = step.fields.get("properties", {})
    return isinstance(properties, dict) and properties.get("expiration") == "0"


KNOWN: list[tuple[str, Callable[[Step, Any, Seen, Seen], bool]]] = [
    (
        "An unknown exchange type closes the channel (406), as RabbitMQ 4 does; RabbitMQ 3 the connection (503).",
        lambda step, where, ours, theirs: step.fields.get("exchange_type") == "nonsense",
    ),
    (
        "When a connection ends, RabbitMQ's channels end one by one, and one may still get what another puts back.",
        lambda step, where, ours, theirs: leaving(where, ours, theirs),
    ),
    (
        "A message expires when it is due, wherever it stands; in RabbitMQ's classic queues only at the head.",
        lambda step, where, ours, theirs: where == "there is" and expires_at_once(step),
    ),
    (
        "A prefetch in bytes is kept, not refused: RabbitMQ closes the connection (540).",
        lambda step, where, ours, theirs: bool(step.fields.get("prefetch_size")),
    ),
]


def expected(step: Step, where: Any, ours: Seen, theirs: Seen) -> str | None:
    """Return the sentence that explains a difference, or None."""
    return next((sentence for sentence, holds in KNOWN if holds(step, where, ours, theirs)), None)
