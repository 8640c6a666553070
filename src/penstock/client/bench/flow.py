"""Cells of the flow-control scorecard: which experiment runs under which conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.client.bench import experiments as run
from penstock.client.bench.experiments import KIB_64, MIB
from penstock.client.bench.flow_parties import Place
from penstock.client.bench.loads import Points, play, throughput
from penstock.client.bench.parties import Load
from penstock.client.bench.target import BenchError, cpu_seconds, resident_mib, with_options

Found = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One experiment under one condition."""

    experiment: str
    condition: str
    found: Found


@dataclass(frozen=True)
class Experiment:
    """Experiment of the scorecard: its goal, the reading of a cell, and the check of the goal."""

    key: str
    title: str
    goal: str
    words: Callable[[Found], str]
    met: Callable[[Found], bool]
    worst: Callable[[Found], float] = field(default=lambda found: 0.0)
    """Function for comparison: the table shows the cell with the largest value."""


def _number(value: Any, form: str = "{:.2f}") -> str:
    return "-" if value is None else form.format(value)


EXPERIMENTS = (
    Experiment(
        "overshoot",
        "past capacity, nobody consuming",
        "0 over, 0 refused, 0 sessions lost",
        lambda f: f"{f['over']} over, {f['refused']:,} refused, {f['sessions_lost']} lost",
        lambda f: f["over"] == 0 and f["refused"] == 0 and f["sessions_lost"] == 0,
        lambda f: f["over"] * 1e6 + f["refused"] + f["sessions_lost"],
    ),
    Experiment(
        "standstill",
        "window of 1, nobody consuming, 64 KiB",
        "<= 1 taken behind the closed gate, then refused or told to wait",
        lambda f: (
            f"{f['late']} late, {f['refused']} refused at {f['depth']} of {f['capacity']}"
            f"{'; waits, nothing sent' if f['waits'] else ''}"
        ),
        lambda f: f["late"] <= 1 and (f["refused"] > 0 or f["waits"]) and f["depth"] == f["confirmed"],
        lambda f: f["late"],
    ),
    Experiment(
        "starvation",
        "consumer of 2,000/s, 64 KiB",
        "0 s, >= 99 % of its rate",
        lambda f: f"{f['starved_s']:.2f} s, {f['rate']:,.0f}/s",
        lambda f: f["rate"] >= 0.99 * 2000 and f["starved_s"] < 0.05,
        lambda f: -f["rate"],
    ),
    Experiment(
        "resume",
        "room made -> next confirmation",
        "p50 <= 1 ms, p99 <= 10 ms",
        lambda f: f"p50 {_number(f['p50_ms'])}, p90 {_number(f['p90_ms'])}, p99 {_number(f['p99_ms'])} ms",
        lambda f: f["p50_ms"] is not None and f["p50_ms"] <= 1.0 and f["p99_ms"] <= 10.0,
    ),
    Experiment(
        "equal",
        "8 equal producers",
        "max/min <= 1.02, block <= 2 cycles",
        lambda f: f"{f['unfairness']:.3f}, {_number(f['longest_block_cycles'])} cycles",
        lambda f: f["unfairness"] <= 1.02 and (f["longest_block_cycles"] or 0.0) <= 2.0,
        lambda f: f["unfairness"],
    ),
    Experiment(
        "greedy",
        "window 1000 among seven of 10",
        "<= 1.1, no round missed",
        lambda f: f"{f['first_to_others']:.2f}, {_number(f['rounds_missed'], '{}')} missed",
        lambda f: f["first_to_others"] <= 1.1 and not f["rounds_missed"],
        lambda f: f["first_to_others"],
    ),
    Experiment(
        "isolation",
        "a blocked channel beside a free one",
        "free queue and consumer >= 95 %",
        lambda f: f"publisher {f['publisher']:.0%}, consumer {f['consumer']:.0%}",
        lambda f: f["publisher"] >= 0.95 and f["consumer"] >= 0.95,
    ),
    Experiment(
        "throughput",
        "1 MiB against unlimited",
        ">= 97 % of the rate",
        lambda f: f"{f['rate_ratio']:.0%}, {f['rate']:,.0f}/s",
        lambda f: f["rate_ratio"] >= 0.97,
        lambda f: -f["rate_ratio"],
    ),
    Experiment(
        "order",
        "each producer's messages",
        "in order, always",
        lambda f: f"{f['out_of_order']} out of order",
        lambda f: f["out_of_order"] == 0,
        lambda f: f["out_of_order"],
    ),
    Experiment(
        "crowd",
        "10,000 blocked against 100",
        "CPU per message that passes <= 1.5x",
        lambda f: f"{f['ratio']:.2f}x ({f['cpu_us']:.0f} us)",
        lambda f: f["ratio"] <= 1.5,
    ),
)
"""Experiments in the order of the table."""


def by_key(key: str) -> Experiment:
    """Return an experiment."""
    return next(each for each in EXPERIMENTS if each.key == key)


def worst(cells: list[Cell]) -> Cell:
    """Return the cell that the table shows: a cell that misses the goal before cells that meet it, then the worst."""
    experiment = by_key(cells[0].experiment)
    return max(cells, key=lambda cell: (not experiment.met(cell.found), experiment.worst(cell.found)))


def met(cells: list[Cell]) -> bool:
    """Return whether the goal is met in every cell."""
    experiment = by_key(cells[0].experiment)
    return all(experiment.met(cell.found) for cell in cells)


def scorecard(cells: list[Cell]) -> list[dict[str, object]]:
    """Return a row for each experiment: its goal, its worst cell and the verdict of all its cells."""
    rows: list[dict[str, object]] = []
    for experiment in EXPERIMENTS:
        mine = [cell for cell in cells if cell.experiment == experiment.key]
        if mine:
            shown = worst(mine)
            rows.append(
                {
                    "case": experiment.title,
                    "goal": experiment.goal,
                    "worst": experiment.words(shown.found),
                    "at": shown.condition,
                    "verdict": "met" if met(mine) else "missed",
                }
            )
    return rows


def figures(cells: list[Cell]) -> list[dict[str, object]]:
    """Return a row for each cell, with all measurements."""
    return [
        {"case": f"{cell.experiment}: {cell.condition}", "met": by_key(cell.experiment).met(cell.found), **cell.found}
        for cell in cells
    ]


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
        """Depth of the queues of 64 KiB with eight publishers, for a plot."""

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
        """Compare a bounded queue with an unbounded one; a queue that refuses at its bound has no such rate."""
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
