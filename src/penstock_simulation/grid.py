"""Grid: the candidates of a plan, and the choice among their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from penstock.flow.level import OVERHEAD
from penstock.settings.table import CAPACITY_BYTES
from penstock_simulation.candidate import Candidate
from penstock_simulation.goals import Goal, miss_of_all
from penstock_simulation.outcome import Outcome

CANDIDATES_MAX = 5_000
"""Most candidates of one plan."""
DEPTHS = (1.0, 0.5, 0.25, 0.125)
"""Capacities that are tried below the depth of a goal, as parts of that depth."""


@dataclass(frozen=True)
class Axes:
    """Values to try for each setting; None is the broker's default, or no limit for the prefetch."""

    capacity_bytes: tuple[int | None, ...] = (None,)
    capacity_messages: tuple[int | None, ...] = (None,)
    stop_percent: tuple[float | None, ...] = (None, 95.0)
    resume_percent: tuple[float | None, ...] = (None, 40.0)
    hold_deadline_s: tuple[float | None, ...] = (None,)
    window: tuple[int, ...] = (10, 100, 1000)
    prefetch: tuple[int | None, ...] = (10, 100, 1000)

    def candidates(self) -> list[Candidate]:
        """Return all combinations that a broker accepts: combinations with resume <= stop.

        Raises ValueError for more than `CANDIDATES_MAX`.
        """
        found = [
            Candidate(*values)
            for values in product(
                self.capacity_bytes,
                self.capacity_messages,
                self.stop_percent,
                self.resume_percent,
                self.hold_deadline_s,
                self.window,
                self.prefetch,
            )
            if not (values[2] is not None and values[3] is not None and values[3] > values[2])
        ]
        if len(found) > CANDIDATES_MAX:
            raise ValueError(f"the grid has {len(found):,} candidates; the most is {CANDIDATES_MAX:,}; try fewer")
        return found


def that_hold(candidates: Iterable[Candidate], largest: int) -> list[Candidate]:
    """Return candidates with room for the largest message (a charge): a lower capacity would hold it forever."""
    found = [
        each.with_changes(capacity_bytes=largest)
        if each.capacity_bytes is not None and each.capacity_bytes < largest
        else each
        for each in candidates
    ]
    return list(dict.fromkeys(found))


def capacities_for(goals: Iterable[Goal]) -> tuple[int | None, ...]:
    """Return capacities in bytes that suit a goal for the depth; the default without such a goal."""
    for goal in goals:
        if goal.measure == "depth" and goal.comparison in ("<", "<="):
            return tuple(int(goal.limit * part) for part in DEPTHS)
    return (None,)


@dataclass(frozen=True)
class Trial:
    """A candidate and the outcome of its simulation."""

    candidate: Candidate
    outcome: Outcome


@dataclass(frozen=True)
class Choice:
    """The best trial, and whether it meets the goals."""

    trial: Trial
    meets: bool
    others: int
    """Number of other trials that meet the goals."""


def choose(trials: Sequence[Trial], goals: Sequence[Goal]) -> Choice:
    """Return the trial that meets the goals with the least capacity; `_cost` orders trials of equal capacity.

    If no trial meets the goals, return the trial that misses them least. Raises ValueError without trials.
    """
    if not trials:
        raise ValueError("there is no trial to choose from")
    meeting = [trial for trial in trials if miss_of_all(goals, trial.outcome) == 0]
    if meeting:
        best = min(meeting, key=_cost)
        return Choice(best, True, len(meeting) - 1)
    best = min(trials, key=lambda trial: (miss_of_all(goals, trial.outcome), *_cost(trial)))
    return Choice(best, False, 0)


def _cost(trial: Trial) -> tuple[float, ...]:
    """Return the values to compare, in this order: capacity, highest depth, crossings, waits, window and prefetch."""
    outcome, candidate = trial.outcome, trial.candidate
    room = candidate.capacity_bytes or CAPACITY_BYTES
    messages = candidate.capacity_messages or 1 << 62
    memory = min(room, messages * OVERHEAD)
    windows = candidate.window, candidate.prefetch or 1 << 30
    return memory, outcome.depth, outcome.crossings, outcome.wait_p99, *windows
