"""The table of whole brokers in docs/inside/benchmarks.md: every scenario with its goals, and what is lost first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.loadgen import AMQP091, POSTGRESQL
from bench.page import judged, line, load, rank, record
from bench.report import Best, Row
from bench.scenarios import SCENARIOS, SCENARIOS_OF, STORES


def recorded(key: str, compiled: float, rabbitmq: float | None) -> dict[str, Any]:
    """Return the row of a scenario over AMQP 0-9-1 in which the brokers took so much time."""
    times = {"compiled": compiled} | ({} if rabbitmq is None else {"rabbitmq": rabbitmq})
    best = {name: Best(time, 1e6, 0.1, 50, time, 200, time, time, 64) for name, time in times.items()}
    scenario = next(each for each in SCENARIOS if each.key == key)
    return judged({"protocol": AMQP091} | Row.judged(scenario, best).as_data())


def test_record_has_every_scenario_with_its_goals() -> None:
    rows = load()["rows"]
    there = [(row["protocol"], row["scenario"]["key"]) for row in rows]
    assert sorted(there) == sorted(
        (protocol, each.key) for protocol, scenarios in SCENARIOS_OF.items() for each in scenarios
    ), "measure them: make bench ARGS=--record"
    assert [row for row in rows if judged(row) != row] == [], "judge them again: python -m bench.page"


def test_rows_that_a_peer_wins_come_first_and_then_missed_goals() -> None:
    lost, late, missed = recorded("acks", 3, 2), recorded("latency", 3, 2.9), recorded("kib", 1, 9)
    unknown, met = recorded("pairs", 1, None), recorded("confirms", 1, 15)
    assert sorted([met, unknown, missed, lost, late], key=rank) == [lost, late, missed, unknown, met]
    assert line(lost).endswith("| 3 µs |  | RabbitMQ: 2 µs | **0.667x** |")
    assert "| compiled 10x: **missed**; interpreted 2x: not measured |" in line(missed)


def test_row_of_a_store_has_the_servers_time_and_the_other_store_beside() -> None:
    best = {"compiled": Best(8, 7e4, 1, 50, 9, 200, 9, 9e3, 64, 6), "sqlite": Best(5, 1e5, 1, 50, 9, 200, 9, 4e3, 64)}
    row = judged({"protocol": POSTGRESQL} | Row.judged(STORES[0], best).as_data())
    assert "| 60,000/s compiled: met | 8 µs, 70,000/s, server 6 µs; SQLite: 5 µs, 100,000/s |" in line(row)


def test_comparison_that_is_incomplete_leaves_the_record_alone(tmp_path: Path) -> None:
    file, row = tmp_path / "recorded.json", recorded("kib", 1, 9)
    record({AMQP091: {"complete": True, "conditions": {"cores": 2}, "rows": [row]}}, file)
    record({AMQP091: {"complete": False, "conditions": {}, "rows": []}}, file)
    assert json.loads(file.read_text()) == {"conditions": {AMQP091: {"cores": 2}}, "rows": [row]}
