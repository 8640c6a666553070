"""Goals: their meaning, and errors of invalid ones."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from penstock_simulation.goals import GoalError, miss_of_all, parse, shown
from penstock_simulation.outcome import Histogram
from tests.support.outcomes import OUTCOME


def test_goals_of_every_unit() -> None:
    goals = parse("blocked<=2%, starved=0,depth<=64MiB,wait-p99<300ms,refused<=10,crossings>3")
    assert [goal.is_met(OUTCOME) for goal in goals] == [True, True, True, False, True, True]
    assert [goal.limit for goal in goals] == [0.02, 0, 64 * 2**20, 0.3, 10, 3]
    assert miss_of_all(goals, OUTCOME) > 0
    assert miss_of_all(goals, replace(OUTCOME, wait_p99=0.299)) == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("blockd<1%", "did you mean blocked?"),
        ("blocked", "'blocked' is not a measure, a comparison and a number"),
        ("depth<1s", "the unit 's'; the unit of depth is none or B or KiB or MiB or GiB"),
        ("wait_p99<3%", "the unit of wait_p99 is s or ms or m"),
        ("blocked<1", "write 1% or 100%"),
        ("blocked<200%", "a share, which is at most 100%"),
        ("depth<1.2.3", "'1.2.3', which is not a number"),
    ],
)
def test_goal_that_cannot_be_understood(text: str, sentence: str) -> None:
    with pytest.raises(GoalError, match=re.escape(sentence)):
        parse(text)


def test_values_for_people() -> None:
    assert shown("blocked", 0.0123) == "1.23%"
    assert shown("depth", 3 * 2**20) == "3 MiB"
    assert shown("wait_p99", 0.0021) == "2.1 ms"
    assert shown("wait_p99", 12.0) == "12 s"
    assert shown("crossings", 12345) == "12,345"


def test_histogram_has_quantiles_within_five_percent() -> None:
    times = Histogram()
    for number in range(1, 1001):
        times.add(number / 1000)
    assert times.quantile(0.5) == pytest.approx(0.5, rel=0.05)
    assert times.quantile(0.99) == pytest.approx(0.99, rel=0.05)
    assert Histogram().quantile(0.5) == 0
