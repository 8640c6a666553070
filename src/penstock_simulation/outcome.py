"""Outcome of a simulation: measures of a queue and its clients, in which goals are stated."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """Measures of one simulation. Shares are 0 to 1, times are seconds, and depths are the queue's."""

    seconds: float
    """Length of the simulation."""
    offered: int
    """Messages that the producers had to publish."""
    confirmed: int
    refused: int
    """Publishes that were refused, most of them at their hold deadline."""
    settled: int
    """Messages that the consumers acknowledged."""
    blocked: float
    """Share of the producers' time in which a gate blocked them."""
    starved: float
    """Share of the time in which a consumer had nothing to do while a producer was blocked."""
    closed: float
    """Share of the time in which the queue's gate was closed (the duty cycle)."""
    above_stop: float
    """Share of the time in which the depth was above the stop threshold."""
    crossings: int
    """Number of closings of the gate."""
    cycle_s: float
    """Mean time from one closing to the next; 0 with fewer than two closings."""
    return_s: float
    """Mean time from a closing to the next opening; 0 without an opening."""
    depth: int
    """Highest depth in bytes (charges)."""
    depth_messages: int
    """Highest depth in messages."""
    mean_depth: float
    """Mean depth in bytes over time."""
    wait_p50: float
    """Median time from the moment a producer has a message until its confirm."""
    wait_p99: float

    def as_dict(self) -> dict[str, Any]:
        """Return the measures as plain data."""
        return asdict(self)


NAMES = tuple(field.name for field in fields(Outcome))
"""Names of the measures."""


class Histogram:
    """Times in buckets that grow by 5 %, from 10 µs to about 12 days: quantiles are exact to 5 %."""

    FIRST_S = 1e-5
    GROWTH = 1.05
    BUCKETS = 520

    def __init__(self) -> None:
        """Begin without times."""
        self._counts = [0] * self.BUCKETS
        self.total = 0

    def add(self, seconds: float) -> None:
        """Add a time."""
        at = 0 if seconds <= self.FIRST_S else int(math.log(seconds / self.FIRST_S) / math.log(self.GROWTH)) + 1
        self._counts[min(at, self.BUCKETS - 1)] += 1
        self.total += 1

    def quantile(self, share: float) -> float:
        """Return the time that this share of the times does not exceed, in seconds; 0 without times."""
        left = share * self.total
        for at, count in enumerate(self._counts):
            left -= count
            if count and left <= 0:
                return self.FIRST_S * self.GROWTH**at if at else 0.0
        return 0.0
