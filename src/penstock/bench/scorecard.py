"""Scorecard of flow control: goals of the experiments, and one row for each with its worst cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Found = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One experiment under one condition."""

    experiment: str
    condition: str
    found: Found


@dataclass(frozen=True)
class Experiment:
    """Experiment of the scorecard: its goal, how a cell reads, and whether one meets the goal."""

    key: str
    title: str
    goal: str
    words: Callable[[Found], str]
    met: Callable[[Found], bool]
    worst: Callable[[Found], float] = field(default=lambda found: 0.0)
    """The cell with the largest is the one that the table shows."""


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
"""In the order of the table."""


def by_key(key: str) -> Experiment:
    """Return an experiment."""
    return next(each for each in EXPERIMENTS if each.key == key)


def worst(cells: list[Cell]) -> Cell:
    """Return the cell that the table shows: one that misses the goal before one that meets it, then the worst."""
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
    """Return a row for each cell, with all that was measured."""
    return [
        {"case": f"{cell.experiment}: {cell.condition}", "met": by_key(cell.experiment).met(cell.found), **cell.found}
        for cell in cells
    ]
