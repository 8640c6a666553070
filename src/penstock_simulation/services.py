"""Service times: how long a consumer works on a message, in seconds."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence

Service = Callable[[float], float]
"""Function that returns the seconds for a message whose service begins at a time (seconds from the start)."""


def constant(rate: float) -> Service:
    """Return the same time for each message: 1/rate seconds (the D of M|D|1)."""
    seconds = 1 / rate
    return lambda now: seconds


def exponential(rate: float, chance: random.Random) -> Service:
    """Return times with an exponential distribution and a mean of 1/rate seconds (the second M of M|M|1)."""
    return lambda now: chance.expovariate(rate)


def recorded(starts: Sequence[float], rates: Sequence[float]) -> Service:
    """Return equal times whose rate changes over time, as recorded.

    `starts` are the times, in order, from which each of the `rates` (messages per second, above 0) holds.
    """

    def seconds(now: float) -> float:
        return 1 / rates[max(0, bisect_right(starts, now) - 1)]

    return seconds
