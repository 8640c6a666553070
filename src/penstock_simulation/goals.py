"""Goals: conditions on the measures of a simulation, such as ``blocked<1%,starved=0,depth<=64MiB``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.texts import nearest
from penstock_simulation.outcome import Outcome

SHARES = ("blocked", "starved", "closed", "above_stop")
TIMES = ("wait_p50", "wait_p99", "cycle_s", "return_s")
BYTES = ("depth", "mean_depth")
COUNTS = ("depth_messages", "refused", "crossings")
MEASURES = (*SHARES, *TIMES, *BYTES, *COUNTS)
"""Measures that goals may be stated for."""

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_UNITS: tuple[tuple[tuple[str, ...], dict[str, float]], ...] = (
    (SHARES, {"": 1.0, "%": 0.01}),
    (TIMES, {"s": 1.0, "ms": 0.001, "m": 60.0}),
    (BYTES, {"": 1.0, "B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}),
    (COUNTS, {"": 1.0}),
)
ONE_PERCENT = 0.01
"""Unit of the miss of a goal of 0 for a share; other measures have the unit 1."""
LEAST_MISS = 1e-9
"""Miss of a goal such as ``blocked<1%`` by an outcome of exactly 1 %."""


class GoalError(ValueError):
    """Error for an invalid goal, in one sentence."""


@dataclass(frozen=True)
class Goal:
    """One condition on one measure."""

    measure: str
    comparison: str
    limit: float
    text: str
    """Text of the goal, as given."""

    def value(self, outcome: Outcome) -> float:
        """Return the measure."""
        return float(getattr(outcome, self.measure))

    def is_met(self, outcome: Outcome) -> bool:
        """Return whether an outcome meets the goal."""
        return _COMPARISONS[self.comparison](self.value(outcome), self.limit)

    def miss(self, outcome: Outcome) -> float:
        """Return by how much an outcome misses the goal, relative to its limit; 0 if the goal is met."""
        if self.is_met(outcome):
            return 0.0
        value = self.value(outcome)
        scale = self.limit or (ONE_PERCENT if self.measure in SHARES else 1.0)
        return abs(value - self.limit) / scale + LEAST_MISS

    def tell(self, outcome: Outcome) -> str:
        """Return the measure as text, in the goal's unit."""
        return f"{self.measure} {shown(self.measure, self.value(outcome))}"


def shown(measure: str, value: float) -> str:
    """Return the value of a measure as text."""
    if measure in SHARES:
        return f"{value:.2%}"
    if measure in TIMES:
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    if measure in BYTES:
        for unit, octets in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if value >= octets:
                return f"{value / octets:.4g} {unit}"
        return f"{value:.0f} B"
    return f"{value:,.0f}"


def parse(text: str) -> list[Goal]:
    """Return the goals of a text, separated by commas.

    Raises `GoalError` for an invalid condition, an unknown measure or an impossible value.
    """
    return [_goal(part.strip()) for part in text.split(",") if part.strip()]


def _goal(text: str) -> Goal:
    found = re.fullmatch(r"([a-z][a-z0-9_-]*)\s*(<=|>=|<|>|=)\s*([0-9][0-9_.]*)\s*([A-Za-z%]*)", text)
    if found is None:
        raise GoalError(f"the goal '{text}' is not a measure, a comparison and a number, such as blocked<1%")
    name, comparison, number, unit = found.groups()
    measure = name.replace("-", "_")
    if measure not in MEASURES:
        near = nearest(measure, MEASURES)
        hint = f"did you mean {near}?" if near else f"it is one of {', '.join(MEASURES)}"
        raise GoalError(f"the goal '{text}' is for the measure '{name}', which there is not; {hint}")
    units = next(units for measures, units in _UNITS if measure in measures)
    if unit not in units:
        given = f"the unit '{unit}'" if unit else "no unit"
        known = " or ".join(each or "none" for each in units)
        raise GoalError(f"the goal '{text}' has {given}; the unit of {measure} is {known}")
    try:
        limit = float(number.replace("_", "")) * units[unit]
    except ValueError:
        raise GoalError(f"the goal '{text}' has '{number}', which is not a number") from None
    if measure in SHARES and limit == 1 and not unit:
        raise GoalError(f"the goal '{text}' is for a share: write 1% or 100%")
    if measure in SHARES and limit > 1:
        raise GoalError(f"the goal '{text}' is for a share, which is at most 100%")
    return Goal(measure, comparison, limit, text)


def miss_of_all(goals: Sequence[Goal], outcome: Outcome) -> float:
    """Return the sum of the relative misses; 0 if all goals are met."""
    return sum(goal.miss(outcome) for goal in goals)
