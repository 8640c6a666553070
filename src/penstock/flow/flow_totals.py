"""Totals of flow control since the broker's start, by the kind of gate: what must not fall when an object ends.

The statistics of a gate end with its queue, connection or address. A sum over those that are left would fall then,
which a reader of counters takes for a restart. So the broker counts each transition and each block once more, by kind:
both are rare beside messages.
"""

from __future__ import annotations

from mypy_extensions import i64

from penstock.flow.histogram import Histogram


class TimeIntegral:
    """Number of things that last, and the seconds of all of them together, those that are over included."""

    __slots__ = ("present", "_seconds", "_since")

    def __init__(self) -> None:
        self.present: i64 = 0
        """Number of them now."""
        self._seconds: float = 0.0
        self._since: float = 0.0

    def change(self, by: i64, now: float) -> None:
        """Count some that begin, or end (negative)."""
        self._seconds = self.seconds(now)
        self._since = now
        self.present += by

    def seconds(self, now: float) -> float:
        """Return the sum of their seconds up to now."""
        return self._seconds + float(self.present) * max(now - self._since, 0.0)


class KindTotals:
    """Totals of all gates of a kind."""

    __slots__ = ("closed", "crossings", "blocked", "blocks")

    def __init__(self) -> None:
        self.closed = TimeIntegral()
        """Closed gates."""
        self.crossings: i64 = 0
        """Times that gates closed."""
        self.blocked = TimeIntegral()
        """Pairs of a producer and a gate that blocks it."""
        self.blocks: i64 = 0
        """Times that a producer was blocked."""


class FlowTotals:
    """Totals by the kind of gate, and the latency of resumption."""

    __slots__ = ("kinds", "resume_latency", "holds")

    def __init__(self) -> None:
        self.kinds: dict[str, KindTotals] = {}
        """By `Gate.kind`; there are seven."""
        self.resume_latency = Histogram()
        """Seconds from the opening of a gate until a producer that it blocked went on."""
        self.holds = Histogram()
        """Seconds for which a publish was held until its turn came; a refused one does not count."""

    def of(self, kind: str) -> KindTotals:
        """Return the totals of a kind; creates them at first use."""
        found = self.kinds.get(kind)
        if found is None:
            found = KindTotals()
            self.kinds[kind] = found
        return found

    def count_transition(self, kind: str, closed: bool, now: float) -> None:
        """Count a gate that closed, or opened."""
        totals = self.of(kind)
        if closed:
            totals.crossings += 1
        totals.closed.change(1 if closed else -1, now)

    def count_block(self, kind: str, blocked: bool, now: float) -> None:
        """Count a producer that a gate blocks, or no longer blocks."""
        totals = self.of(kind)
        if blocked:
            totals.blocks += 1
        totals.blocked.change(1 if blocked else -1, now)
