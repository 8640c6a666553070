"""Outlook of an alarm: what it is about, how much is left, and when it will hurt at the present rate.

A trend has the samples of one level in the last minute, a slot apart, as the rounds of alarm checks see it. A forecast
needs a steady rate, as that of a queue does (`describe/queue_state.py`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.describe.queue_state import steady
from penstock.flow.gate import Gate
from penstock.flow.series import MINUTE, SLOT_S

NOW: Final = 0.0
"""Seconds until it hurts, for a condition that stops somebody already."""
BYTES: Final = "bytes"
SECONDS: Final = "s"
BROKER: Final = "broker"
"""Noun of what belongs to the node."""
NOUNS: Final[dict[str, str]] = {"queue": "queue", "vhost": "vhost", "address": "exchange"}
"""Nouns of gates by kind; of the operator's by scope."""


class Outlook(NamedTuple):
    """Object of an alarm, what is left of it, and the seconds until it hurts."""

    noun: str = BROKER
    name: str = ""
    hurts_in_s: float | None = None
    """Seconds; 0 for now, None if nobody knows."""
    left: int | None = None
    """Amount that is left before it hurts; None if nothing is counted."""
    unit: str = ""


UNKNOWN: Final[Outlook] = Outlook()


def outlook_of(gate: Gate) -> Outlook:
    """Return the outlook of a gate that is closed."""
    if gate.kind == "operator":
        scope, _, name = gate.name.partition(" ")
        return Outlook(NOUNS.get(scope, scope), name, NOW)
    noun = NOUNS.get(gate.kind, BROKER)
    return Outlook(noun, gate.name if noun != BROKER else "", NOW)


class Trend:
    """Samples of a level in the last minute."""

    __slots__ = ("_values", "_at")

    def __init__(self) -> None:
        self._values: list[int] = []
        self._at: float = 0.0
        """Time of the last sample."""

    def record(self, level: int, now: float) -> None:
        """Record the level, once a slot; samples before a long pause are forgotten."""
        if self._values and now - self._at < SLOT_S:
            return
        if now - self._at > 2 * SLOT_S:
            self._values = []
        self._values.append(level)
        self._at = now
        del self._values[: -MINUTE - 1]

    def reaches_in_s(self, left: int) -> float | None:
        """Return in how many seconds the level has risen by `left`; None without a steady rate of a whole minute."""
        rate = steady(self._values) if len(self._values) > MINUTE else None
        return None if rate is None else max(left, 0) / rate


class Trends:
    """Trends by the name of what is measured. A round drops those that it has not seen."""

    def __init__(self) -> None:
        self._trends: dict[str, Trend] = {}
        self._seen: dict[str, Trend] = {}

    def begin_round(self) -> None:
        """Drop the trends that the last round has not seen."""
        self._trends, self._seen = self._seen, {}

    def reaches_in_s(self, name: str, level: int, left: int, now: float) -> float | None:
        """Record a level; return in how many seconds it has risen by `left`, None if nobody knows."""
        trend = self._trends.get(name)
        if trend is None:
            trend = Trend()
        self._seen[name] = trend
        trend.record(level, now)
        return trend.reaches_in_s(left)
