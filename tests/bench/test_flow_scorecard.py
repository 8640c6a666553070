"""The flow-control scorecard: goals, worst cells and rows."""

from __future__ import annotations

from penstock.client.bench.flow import EXPERIMENTS, Cell, by_key, figures, met, scorecard, worst


def overshot(over: int, condition: str) -> Cell:
    return Cell("overshoot", condition, {"over": over, "refused": 0, "sessions_lost": 0})


def test_row_of_an_experiment_shows_the_worst_cell_and_the_verdict_of_all() -> None:
    cells = [overshot(0, "1 x 50"), overshot(3, "64 x 1000")]
    assert worst(cells).condition == "64 x 1000"
    assert not met(cells)
    (row,) = scorecard(cells)
    assert (row["worst"], row["at"], row["verdict"]) == ("3 over, 0 refused, 0 lost", "64 x 1000", "missed")
    assert scorecard(cells[:1])[0]["verdict"] == "met"


def test_figures_have_a_row_for_each_cell() -> None:
    (row,) = figures([overshot(3, "1 x 50")])
    assert row == {"case": "overshoot: 1 x 50", "met": False, "over": 3, "refused": 0, "sessions_lost": 0}


def test_experiment_that_could_not_be_measured_misses_its_goal() -> None:
    nothing = {"p50_ms": None, "p90_ms": None, "p99_ms": None}
    assert by_key("resume").words(nothing) == "p50 -, p90 -, p99 - ms"
    assert not by_key("resume").met(nothing)
    assert len({experiment.key for experiment in EXPERIMENTS}) == len(EXPERIMENTS)


def test_standstill_is_met_by_refusals_and_by_waiting_without_a_message() -> None:
    found = {"late": 1, "refused": 0, "waits": True, "confirmed": 40, "depth": 40, "capacity": 51}
    assert by_key("standstill").met(found)
    assert not by_key("standstill").met(found | {"waits": False})
    assert by_key("standstill").met(found | {"waits": False, "refused": 2})
    assert not by_key("standstill").met(found | {"depth": 41})
