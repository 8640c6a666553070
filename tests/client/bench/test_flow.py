"""Cells of the scorecard: which conditions an experiment is run under."""

from __future__ import annotations

import pytest

from penstock.client.bench.flow import Card
from penstock.client.bench.flow_parties import Place
from penstock.client.bench.target import BenchError, Target


def test_card_runs_the_chosen_experiments_and_reports_each_cell(target: Target) -> None:
    lines: list[str] = []
    card = Card(Place(target, ("amqp091",)), lines.append, 0.2)
    cells = list(card.cells({"overshoot", "throughput", "crowd"}))
    assert [cell.condition for cell in cells if cell.experiment == "overshoot"] == [
        f"{count} x {window}, {size}" for size in ("1 MiB", "64 KiB") for count in (1, 8) for window in (50, 1000)
    ]
    assert [cell.found["over"] for cell in cells if cell.experiment == "overshoot"] == [0] * 8
    assert [cell.condition for cell in cells if cell.experiment == "throughput"] == ["1 x 50, 1 KiB", "1 x 500, 1 KiB"]
    assert len(lines) == len(cells) == 10  # A crowd needs the broker's process.


def test_crowd_of_an_ended_process_is_refused(target: Target) -> None:
    card = Card(Place(target), lambda text: None, 0.2, pid=1 << 22)
    with pytest.raises(BenchError, match="processor time of process 4194304"):
        card._cpu()
