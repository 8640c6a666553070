"""Differences from RabbitMQ that are known and meant, each with its sentence; a sequence ends at the first of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.compat.steps import Step

Seen = Any
KNOWN: list[tuple[str, Callable[[Step, Any, Seen, Seen], bool]]] = [
    (
        "An unknown exchange type closes the channel (406), as RabbitMQ 4 does; RabbitMQ 3 the connection (503).",
        lambda step, where, ours, theirs: step.fields.get("exchange_type") == "nonsense",
    ),
    (
        "A prefetch in bytes is kept, not refused: RabbitMQ closes the connection (540).",
        lambda step, where, ours, theirs: bool(step.fields.get("prefetch_size")),
    ),
]


def expected(step: Step, where: Any, ours: Seen, theirs: Seen) -> str | None:
    """Return the sentence that explains a difference, or None."""
    return next((sentence for sentence, holds in KNOWN if holds(step, where, ours, theirs)), None)
