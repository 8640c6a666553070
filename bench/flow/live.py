"""The experiments of the scorecard with links of AMQP 1.0 in place of channels, and with both at one queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from bench.flow import experiments as run
from bench.flow.card import by_key
from bench.flow.experiments import KIB_64, MIB, Found
from bench.flow.parties import Target
from bench.flow.wire import Link
from bench.flow.wire10 import Link10

LINKS = (Link10,)
BOTH = (Link, Link10)
GREEDY = [1000, *[10] * 7]
MIXED_UNFAIRNESS = 1.1


@dataclass(frozen=True)
class Live:
    """One experiment under one condition."""

    broker: str
    experiment: str
    condition: str
    found: Found
    is_met: bool

    def met(self) -> bool:
        """Tell whether the goal is met."""
        return self.is_met

    def words(self) -> str:
        """Return it as one line."""
        experiment = by_key(self.experiment)
        line = f"{self.broker}: {experiment.title}, {self.condition}: {experiment.words(self.found)}"
        return line if self.is_met else f"{line}   <- misses the goal"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def cells(url: str, name: str, quick: bool) -> Iterator[Live]:
    """Run them against one of our brokers."""
    seconds = 2.0 if quick else 5.0
    links, both = Target(url, True, LINKS), Target(url, True, BOTH)

    def cell(key: str, condition: str, work: Coroutine[Any, Any, Found], met: Callable[[Found], bool]) -> Live:
        found = asyncio.run(work)
        return Live(name, key, condition, found, met(found))

    for title, capacity in (("1 MiB", MIB), ("64 KiB", KIB_64)):
        for window in (50, 1000):
            windows = [window] * 8
            pace = run.pace(links, windows, capacity, seconds)
            yield cell("equal", f"8 links x {window}, {title}", pace, by_key("equal").met)
            pace = run.pace(both, windows, capacity, seconds)
            yield cell("equal", f"4 links and 4 channels x {window}, {title}", pace, is_fair_to_both)
        pace = run.pace(links, GREEDY, capacity, seconds)
        yield cell("greedy", f"links, {title}", pace, by_key("greedy").met)
    pace = run.pace(links, [50], KIB_64, seconds)
    yield cell("starvation", "1 link x 50, 64 KiB", pace, by_key("starvation").met)
    resume = run.resume(links, 20 if quick else 100)
    yield cell("resume", "1 link, 64 KiB", resume, by_key("resume").met)
    isolation = run.isolation(links, seconds)
    yield cell("isolation", "sessions of one connection, 64 KiB", isolation, by_key("isolation").met)


def is_fair_to_both(found: Found) -> bool:
    """Tell whether links and channels at one queue get nearly the same."""
    unfairness: float = found["unfairness"]
    return unfairness <= MIXED_UNFAIRNESS
