"""Cells of the flow-control scorecard: which experiment runs under which conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Final

from penstock.bench import experiments as run
from penstock.bench.experiments import KIB_64, MIB
from penstock.bench.flow_parties import Place
from penstock.bench.loads import Load, Points, play, throughput
from penstock.bench.scorecard import Cell, by_key
from penstock.bench.target import BenchError, cpu_seconds, resident_mib, with_options

CAPACITIES: Final = {"1 MiB": MIB, "64 KiB": KIB_64}
GREEDY: Final = (1000, *(10,) * 7)
CROWDS: Final = (100, 10_000)


class Card:
    """One broker's run. `seconds` is the length of one measurement; with `is_full` more publishers take part."""

    def __init__(
        self, place: Place, say: Callable[[str], None], seconds: float, is_full: bool = False, pid: int | None = None
    ) -> None:
        self._place = place
        self._say = say
        self._seconds = seconds
        self._counts = (1, 8, 64) if is_full else (1, 8)
        self._cycles = 100 if is_full else 20
        self._pid = pid
        self.courses: dict[str, Points] = {}
        """Depth of the queues of 64 KiB at which eight publishers are, for a plot."""

    def cells(self, wanted: set[str]) -> Iterator[Cell]:
        """Run the experiments, one after the other."""
        parts = (self._overshoot, self._standstill, self._shares, self._resume, self._isolation, self._throughput)
        for make in (*parts, self._crowd):
            yield from make(wanted)

    def _cell(self, key: str, condition: str, found: dict[str, Any]) -> Cell:
        experiment = by_key(key)
        verdict = "" if experiment.met(found) else "   <- misses the goal"
        self._say(f"{experiment.title}, {condition}: {experiment.words(found)}{verdict}")
        return Cell(key, condition, found)

    def _overshoot(self, wanted: set[str]) -> Iterator[Cell]:
        if "overshoot" in wanted:
            for title, capacity in CAPACITIES.items():
                for count in self._counts:
                    for window in (50, 1000):
                        found = asyncio.run(run.overshoot(self._place, count, window, capacity))
                        found["rss_mib"] = None if self._pid is None else resident_mib(self._pid)
                        yield self._cell("overshoot", f"{count} x {window}, {title}", found)

    def _standstill(self, wanted: set[str]) -> Iterator[Cell]:
        if "standstill" in wanted:
            found = asyncio.run(run.standstill(self._place, 2, 3))
            yield self._cell("standstill", "hold deadline 2 s, until 3 refusals", found)

    def _shares(self, wanted: set[str]) -> Iterator[Cell]:
        orders: list[int] = []
        if wanted & {"starvation", "equal", "order"}:
            for title, capacity in CAPACITIES.items():
                for count in self._counts:
                    for window in (50, 1000):
                        found = asyncio.run(run.pace(self._place, [window] * count, capacity, self._seconds))
                        orders.append(found["out_of_order"])
                        condition = f"{count} x {window}, {title}"
                        self._keep_course(condition, count, capacity, found)
                        if capacity == KIB_64 and "starvation" in wanted:
                            yield self._cell("starvation", condition, found)
                        if count == 8 and "equal" in wanted:
                            yield self._cell("equal", condition, found)
        if "greedy" in wanted:
            for title, capacity in CAPACITIES.items():
                found = asyncio.run(run.pace(self._place, list(GREEDY), capacity, self._seconds))
                orders.append(found["out_of_order"])
                self._keep_course("1000 among 10", len(GREEDY), capacity, found)
                yield self._cell("greedy", title, found)
        if "order" in wanted and orders:
            yield self._cell("order", f"{len(orders)} runs", {"out_of_order": sum(orders)})

    def _keep_course(self, condition: str, count: int, capacity: int, found: dict[str, Any]) -> None:
        course = found.pop("course")
        if (count, capacity) == (8, KIB_64):
            self.courses[f"depth, {condition.partition(',')[0]}"] = course

    def _resume(self, wanted: set[str]) -> Iterator[Cell]:
        if "resume" in wanted:
            found = asyncio.run(run.resume(self._place, self._cycles))
            yield self._cell("resume", f"{found['cycles']} cycles, 64 KiB", found)

    def _isolation(self, wanted: set[str]) -> Iterator[Cell]:
        if "isolation" in wanted:
            yield self._cell("isolation", "64 KiB", asyncio.run(run.isolation(self._place, self._seconds)))

    def _throughput(self, wanted: set[str]) -> Iterator[Cell]:
        """Compare a bounded queue with one without a bound; one that refuses at its bound has no such rate."""
        if "throughput" not in wanted or not self._place.is_penstock:
            return
        target = copy(self._place.target)
        target.url = with_options(target.url, protocol=self._place.protocols[0])
        for window in (50, 500):
            rates: dict[bool, float] = {}
            for is_bounded in (False, True):
                load = Load(seconds=self._seconds, warm_up=self._seconds / 4, interval=self._seconds / 4, size=1024)
                settings = self._place.bounded(MIB) if is_bounded else {}
                with target.queue(**settings) as queue:
                    found = play(target, queue, load._replace(window=window), lambda text: None, lambda: None)
                rates[is_bounded] = float(str(throughput(found)["received/s"]))
            ratio = rates[True] / max(1.0, rates[False])
            yield self._cell("throughput", f"1 x {window}, 1 KiB", {"rate_ratio": ratio, "rate": rates[True]})

    def _crowd(self, wanted: set[str]) -> Iterator[Cell]:
        if "crowd" not in wanted or not self._place.is_penstock or self._pid is None:
            return
        costs = [asyncio.run(run.crowd(self._place, count, 20, self._cpu)) for count in CROWDS]
        few, many = (cost["cpu_us_per_message"] for cost in costs)
        found = {"ratio": many / max(few, 1e-3), "cpu_us": many}
        yield self._cell("crowd", "20 resumes, 64 KiB", found)

    def _cpu(self) -> float:
        found = None if self._pid is None else cpu_seconds(self._pid)
        if found is None:
            raise BenchError(f"the processor time of process {self._pid} cannot be read")
        return found
