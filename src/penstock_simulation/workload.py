"""Workload: the producers and consumers of a queue, as plain data for executors.

The description is JSON-like, so that one text reproduces a simulation: kinds of arrivals and services with their
numbers, the clients' round trip, the length and the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from penstock.flow.level import OVERHEAD
from penstock_simulation import arrivals, services
from penstock_simulation.arrivals import Arrival, Second
from penstock_simulation.services import Service


@dataclass(frozen=True)
class Source:
    """Arrivals of one producer."""

    kind: str
    """`poisson`, `steady`, `bursts`, `mmpp` or `recorded`."""
    octets: int = 1000
    rates: tuple[float, ...] = ()
    """Messages per second: one rate, or the rates of the states of `mmpp`."""
    dwell_s: tuple[float, ...] = ()
    """Mean seconds in each state of `mmpp`."""
    size: int = 1
    """Messages of a burst."""
    seconds: tuple[Second, ...] = ()
    """The recording of `recorded`."""
    pauses: bool = False
    """True for a producer that creates its next message only when it is not blocked; else its messages wait with it."""
    closed_loop: bool = False
    """True for a producer that creates its next message when its window admits it, but not before its time."""

    def arrivals(self, chance: random.Random) -> Iterator[Arrival]:
        """Return the source's arrivals."""
        match self.kind:
            case "poisson":
                return arrivals.poisson(self.rates[0], self.octets, chance)
            case "steady":
                return arrivals.steady(self.rates[0], self.octets, -chance.random() / self.rates[0])
            case "bursts":
                return arrivals.bursts(self.rates[0], self.size, self.octets, chance)
            case "mmpp":
                return arrivals.mmpp(self.rates, self.dwell_s, self.octets, chance)
            case "recorded":
                return arrivals.recorded(self.seconds, chance)
        raise ValueError(f"arrivals are poisson, steady, bursts, mmpp or recorded, not '{self.kind}'")


@dataclass(frozen=True)
class Worker:
    """Service of one consumer."""

    kind: str
    """`exponential`, `constant` or `recorded`."""
    rates: tuple[float, ...]
    """Messages per second: one rate, or the rate of each part of `recorded`."""
    starts: tuple[float, ...] = ()
    """Times at which the rates of `recorded` begin."""
    step: int = 1
    """Messages that the consumer settles at once; fewer if it has nothing else to do."""

    def service(self, chance: random.Random) -> Service:
        """Return the consumer's service times."""
        match self.kind:
            case "exponential":
                return services.exponential(self.rates[0], chance)
            case "constant":
                return services.constant(self.rates[0])
            case "recorded":
                return services.recorded(self.starts, self.rates)
        raise ValueError(f"services are exponential, constant or recorded, not '{self.kind}'")


@dataclass(frozen=True)
class Workload:
    """Producers and consumers of one queue, for a time."""

    sources: tuple[Source, ...]
    workers: tuple[Worker, ...]
    seconds: float
    round_trip_s: float = 0.001
    """Time of a confirm or an acknowledgement on the network, there and back."""
    seed: int = 1
    queue: str = field(default="queue")
    pace: float = 0.0
    """Most messages a second that enter the queue while it is filled, of all producers together; 0 for no limit."""
    blocked: float = 0.0
    """Share of the time of a recording for which producers were blocked: above 5 %, the workload is a lower bound."""

    @property
    def largest(self) -> int:
        """Charge of the largest message; in a recording, the end of its power of two."""
        generated = [source.octets + OVERHEAD for source in self.sources if not source.seconds]
        recorded = [octets for source in self.sources for second in source.seconds for octets, _ in second.sizes]
        return max([*generated, *((octets + OVERHEAD) * 4 // 3 for octets in recorded)], default=0)

    def arrivals_of(self, index: int) -> Iterator[Arrival]:
        """Return the arrivals of a producer within the time."""
        chance = random.Random(f"{self.seed}/arrivals/{index}")
        return takewhile(lambda arrival: arrival.at <= self.seconds, self.sources[index].arrivals(chance))

    def service_of(self, index: int) -> Service:
        """Return the service times of a consumer."""
        return self.workers[index].service(random.Random(f"{self.seed}/service/{index}"))
