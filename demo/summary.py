"""A batch in one message, and the message in one line for a person."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def summarised(batch: int, groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is told about a batch, from its totals by carrier and hour.

    ``mean_delay`` is in minutes at departure, over the flights that departed; None when none did. ``latest`` names the
    carrier and hour with the longest mean delay.
    """
    means = [
        (group["departure_delay"] / (group["flights"] - group["cancelled"]), group)
        for group in groups
        if group["flights"] > group["cancelled"]
    ]
    flights, cancelled = (sum(group[name] for group in groups) for name in ("flights", "cancelled"))
    departed = flights - cancelled
    summary: dict[str, Any] = {"batch": batch, "flights": flights, "cancelled": cancelled, "mean_delay": None}
    if means:
        mean, group = max(means, key=lambda pair: pair[0])
        summary["mean_delay"] = round(sum(group["departure_delay"] for group in groups) / departed, 2)
        summary["latest"] = {"carrier": group["carrier"], "hour": group["hour"], "mean_delay": round(mean, 1)}
    return summary


def in_words(body: bytes) -> str:
    """Return a summary as a line. Raises `ValueError` or `KeyError` for a message that is none."""
    told = json.loads(body)
    words = f"batch {told['batch']:>3}: {told['flights']:>6,} flights, {told['cancelled']:>4,} cancelled"
    if told["mean_delay"] is None:
        return words
    latest = told["latest"]
    return (
        f"{words}, {told['mean_delay']:5.1f} min late on average; "
        f"latest: {latest['carrier']} at {latest['hour']:02}:00, {latest['mean_delay']:.0f} min"
    )
