"""Record of the last comparison of whole brokers, and the table of docs/inside/benchmarks.md that is made of it.

`python -m bench.run --record` writes the record, for each protocol that it has compared completely. `python -m
bench.page` judges what is recorded again, after a goal of bench/scenarios.py has changed.
"""

import datetime
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.brokers import COMPILED, INTERPRETED, RABBITMQ, SQLITE, STARTERS
from bench.loadgen import AMQP091, AMQP1, AMQPS, POSTGRESQL
from bench.peers10 import NAMES
from bench.relay import RELAY
from bench.report import PEERS, Best, Row
from bench.scenarios import SCENARIOS_OF

RECORD = Path(__file__).resolve().parent / "recorded.json"
PROTOCOLS = {AMQP091: "AMQP 0-9-1", AMQP1: "AMQP 1.0", AMQPS: "TLS 1.3", POSTGRESQL: "PostgreSQL"}
BROKERS_OF = {AMQP091: tuple(STARTERS), AMQP1: NAMES, AMQPS: tuple(STARTERS), POSTGRESQL: (COMPILED, SQLITE, RABBITMQ)}
WORDS = {True: "met", None: "not measured", False: "**missed**"}
HEAD = ("| load | goals | compiled | interpreted | best peer | peer / ours |", f"|{'---|' * 6}")
Record = dict[str, Any]
"""`conditions` by protocol, and `rows`: of each its protocol, scenario with goals, and what became of them."""


def load(file: Path = RECORD) -> Record:
    """Return the record."""
    found: Record = json.loads(file.read_text())
    return found


def judged(row: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded row with what its scenario says now."""
    scenario = {each.key: each for each in SCENARIOS_OF[row["protocol"]]}[row["scenario"]["key"]]
    again = Row.judged(scenario, {name: Best(**best) for name, best in row["best"].items()})
    found: dict[str, Any] = json.loads(json.dumps({"protocol": row["protocol"]} | again.as_data()))
    return found


def record(found: dict[str, Any], file: Path = RECORD) -> None:
    """Put complete comparisons into the record, each in the place of the last one of its protocol."""
    new = {protocol: data for protocol, data in found.items() if data["complete"]}
    there = load(file) if file.exists() else {"conditions": {}, "rows": []}
    conditions = there["conditions"] | {protocol: data["conditions"] for protocol, data in new.items()}
    rows = [row for row in there["rows"] if row["protocol"] not in new]
    rows += [{"protocol": protocol} | row for protocol, data in new.items() for row in data["rows"]]
    lines = ",\n".join(f"  {json.dumps(judged(row))}" for row in rows)  # a line each, so that a difference is read
    file.write_text(f'{{"conditions": {json.dumps(conditions, indent=1)},\n"rows": [\n{lines}\n]}}\n')


def rank(row: dict[str, Any]) -> tuple[int, float]:
    """Return the place of a row: first where a peer is better, then missed goals, then what was not measured."""
    ratios = [math.inf if ratio is None else ratio for ratio in row["ratios"].values()]
    missed = [goal["goal"] for goal in row["goals"] if goal["met"] is False]
    if min(ratios) < 1 or any("<= RabbitMQ" in goal for goal in missed):
        return 0, min(ratios)
    open_goals = any(goal["met"] is None for goal in row["goals"])
    return 1 if missed else 2 if open_goals else 3, min(ratios)


def _short(value: float) -> str:
    """Return three digits of a figure."""
    return f"{float(f'{value:.3g}'):g}"


def _figures(row: dict[str, Any], name: str | None) -> str:
    """Return what a broker took: its processor time, and what else the scenario is about."""
    best, scenario = row["best"].get(name), row["scenario"]
    if best is None:
        return ""
    found = [f"{_short(best['microseconds'])} µs"]
    found += [f"{best['rate']:,.0f}/s"] if scenario["rate"] else []
    found += [f"p99 {best['p99'] / 1000:.2f} ms"] if scenario["latency"] else []
    found += [f"confirms p99 {best['confirm_p99'] / 1000:.2f} ms"] if scenario["confirmation"] else []
    found += [f"server {_short(best['server'])} µs"] if best["server"] is not None else []
    return ", ".join(found)


def line(row: dict[str, Any]) -> str:
    """Return a row of the table; what a peer does better and what misses its goal is in bold."""
    best = row["best"]
    peer = min((name for name in best if name in PEERS), key=lambda name: best[name]["microseconds"], default=None)
    ratios = [ratio for name in (COMPILED, INTERPRETED) if (ratio := row["ratios"][name]) is not None]
    cells = [
        f"{PROTOCOLS[row['protocol']]}: {row['scenario']['title']}",
        "; ".join(f"{goal['goal']}: {WORDS[goal['met']]}" for goal in row["goals"]) or "none",
        _figures(row, COMPILED)
        + (f"; SQLite: {_figures(row, SQLITE)}" if SQLITE in best else "")
        + (f"; bare relay: {_figures(row, RELAY)}" if RELAY in best else ""),
        _figures(row, INTERPRETED),
        f"{PEERS[peer]}: {_figures(row, peer)}" if peer else "",
        ", ".join(f"**{_short(ratio)}x**" if ratio < 1 else f"{_short(ratio)}x" for ratio in ratios),
    ]
    return f"| {' | '.join(cells)} |"


def conditions(protocol: str, about: dict[str, Any]) -> Iterator[str]:
    """Yield the sentences about the conditions of a protocol's rows."""
    day, effort, others = datetime.date.fromisoformat(about["date"]), about["effort"], about["others"]
    yield f"- {PROTOCOLS[protocol]}: {day:%-d %B %Y}, {about['cores']} cores ({about['processor']}),"
    yield f"  {about['memory_gib']} GiB, {about['system']}, CPython {about['python']}."
    yield f"  Stores on {about['file_system']}."
    yield f"  Windows of {effort['window']:g} s, the best of {effort['repetitions']}."
    yield f"  Other processes used {others[0]} cores in the middle and {others[1]} at most."
    yield f"  Brokers: {'; '.join(about['brokers'].values())}."
    if absent := [name for name in BROKERS_OF[protocol] if name not in about["brokers"]]:
        yield f"  Goals of a ratio are judged without {', '.join(absent)}."


def tables() -> dict[str, str]:
    """Return the table by its name, with its conditions."""
    found = load()
    rows = [line(row) for row in sorted(found["rows"], key=rank)]
    measured = [protocol for protocol in PROTOCOLS if protocol in found["conditions"]]
    notes = [text for protocol in measured for text in conditions(protocol, found["conditions"][protocol])]
    return {"processor time of the broker": "\n".join([*HEAD, *rows, "", *notes])}


if __name__ == "__main__":
    record({})
