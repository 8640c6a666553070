"""Arrivals: the times and sizes of the messages that one producer has to publish, generated or recorded.

Times are seconds from the start of a simulation, in order. Sizes are bytes of a body. Each source is an iterator of
`Arrival` that may be endless; the simulation takes arrivals within its time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Arrival(NamedTuple):
    """A message that a producer has to publish."""

    at: float
    """Seconds from the start."""
    octets: int


def poisson(rate: float, octets: int, chance: random.Random) -> Iterator[Arrival]:
    """Yield arrivals at a mean rate per second, with exponential gaps."""
    at = 0.0
    while True:
        at += chance.expovariate(rate)
        yield Arrival(at, octets)


def steady(rate: float, octets: int, start: float = 0.0) -> Iterator[Arrival]:
    """Yield arrivals at equal gaps."""
    number = 1
    while True:
        yield Arrival(start + number / rate, octets)
        number += 1


def bursts(rate: float, size: int, octets: int, chance: random.Random) -> Iterator[Arrival]:
    """Yield bursts of `size` messages at once; `rate` is the mean rate per second of messages, not of bursts."""
    at = 0.0
    while True:
        at += chance.expovariate(rate / size)
        for _ in range(size):
            yield Arrival(at, octets)


def mmpp(rates: Sequence[float], dwell_s: Sequence[float], octets: int, chance: random.Random) -> Iterator[Arrival]:
    """Yield the arrivals of a Markov-modulated Poisson process, whose states follow each other in a circle.

    `rates` has the rate per second of each state, which may be 0, and `dwell_s` its mean duration in seconds.
    """
    at = 0.0
    state = 0
    until = chance.expovariate(1 / dwell_s[0])
    while True:
        rate = rates[state]
        following = at + chance.expovariate(rate) if rate > 0 else until
        if following < until:
            at = following
            yield Arrival(at, octets)
        else:  # An exponential gap has no memory: the rest of the gap is drawn again in the next state.
            at = until
            state = (state + 1) % len(rates)
            until = at + chance.expovariate(1 / dwell_s[state])


@dataclass(frozen=True)
class Second:
    """Messages of one producer in about a second of a recording."""

    at: float
    """Start of the second, in seconds from the start of the recording."""
    messages: int
    sizes: tuple[tuple[int, int], ...]
    """Sizes in bytes, with the number of messages of each: a coarse histogram."""
    seconds: float = 1.0
    """Seconds over which the messages spread; 0 for a burst."""


def recorded(seconds: Sequence[Second], chance: random.Random) -> Iterator[Arrival]:
    """Yield the messages of a recording, at random times within their second, with sizes from its histogram."""
    last = 0.0
    for second in seconds:
        sizes = [octets for octets, _ in second.sizes] or [0]
        weights = [count for _, count in second.sizes] or [1]
        times = sorted(second.at + second.seconds * chance.random() for _ in range(second.messages))
        for at, octets in zip(times, chance.choices(sizes, weights, k=second.messages), strict=True):
            last = max(last, at)  # Samples may overlap.
            yield Arrival(last, octets)
