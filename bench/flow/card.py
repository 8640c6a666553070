"""From what the experiments found to one table: what was asked for, what was reached, met or missed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Found = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One experiment under one condition, for one broker."""

    experiment: str
    broker: str
    condition: str
    found: Found


@dataclass(frozen=True)
class Experiment:
    """How an experiment's cells become one line: in words, and whether the goal is met in each."""

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
        "<= 1 taken behind the closed gate, then refused",
        lambda f: f"{f['late']} late, {f['refused']} refused at {f['depth']} of {f['capacity']}",
        lambda f: f["late"] <= 1 and f["refused"] > 0 and f["depth"] == f["confirmed"],
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
        lambda f: f"{f['first_to_others']:.2f}, {f['rounds_missed']} missed",
        lambda f: f["first_to_others"] <= 1.1 and f["rounds_missed"] == 0,
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
        ">= 97 %, CPU per message <= 1.1x",
        lambda f: f"{f['rate_ratio']:.0%}, CPU {f['cpu_ratio']:.2f}x",
        lambda f: f["rate_ratio"] >= 0.97 and f["cpu_ratio"] <= 1.1,
        lambda f: f["cpu_ratio"],
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
    """Tell whether the goal is met in every cell."""
    experiment = by_key(cells[0].experiment)
    return all(experiment.met(cell.found) for cell in cells)


def table(cells: list[Cell], brokers: list[str], ours: str) -> str:
    """Return the scorecard: a line an experiment, a column a broker, its worst cell in each; the verdict is ours."""
    rows = [["experiment", "goal", *brokers, ""]]
    for experiment in EXPERIMENTS:
        row = [experiment.title, experiment.goal]
        verdict = ""
        for broker in brokers:
            mine = [cell for cell in cells if cell.experiment == experiment.key and cell.broker == broker]
            row.append(experiment.words(worst(mine).found) if mine else "-")
            if broker == ours and mine:
                verdict = "met" if met(mine) else f"MISSED ({worst(mine).condition})"
        if any(text != "-" for text in row[2:]):
            rows.append([*row, verdict])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
