"""Grids and choices: all combinations that a broker accepts, the cheapest that meets the goals, the nearest else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock_simulation.candidate import Candidate
from penstock_simulation.goals import parse
from penstock_simulation.grid import CANDIDATES_MAX, Axes, Trial, capacities_for, choose
from penstock_simulation.runner import run_trials
from penstock_simulation.trade_off import draw
from penstock_simulation.workload import Source, Worker, Workload
from tests.support.outcomes import OUTCOME

AXES = Axes(
    capacity_messages=(10, 100),
    stop_percent=(50.0, 90.0),
    resume_percent=(30.0, 70.0),
    window=(10,),
    prefetch=(None,),
)


def test_grid_omits_settings_that_a_broker_refuses() -> None:
    found = AXES.candidates()
    assert len(found) == 6
    assert all((each.resume_percent or 0) <= (each.stop_percent or 0) for each in found)
    with pytest.raises(ValueError, match=f"the most is {CANDIDATES_MAX:,}"):
        Axes(window=tuple(range(1, CANDIDATES_MAX))).candidates()


def test_capacities_follow_the_goal_for_the_depth() -> None:
    assert capacities_for(parse("blocked<1%,depth<=8KiB")) == (8192, 4096, 2048, 1024)
    assert capacities_for(parse("blocked<1%")) == (None,)


def test_choice_is_the_smallest_capacity_that_meets_the_goals() -> None:
    goals = parse("blocked<1%")
    small, large = Candidate(capacity_messages=10), Candidate(capacity_messages=100)
    meets, misses = replace(OUTCOME, blocked=0.001), replace(OUTCOME, blocked=0.5)
    both = choose([Trial(large, meets), Trial(small, meets)], goals)
    assert (both.trial.candidate, both.meets, both.others) == (small, True, 1)
    assert choose([Trial(small, misses), Trial(large, meets)], goals).trial.candidate == large
    worse = replace(OUTCOME, blocked=0.9)
    nearest = choose([Trial(small, worse), Trial(large, misses)], goals)
    assert (nearest.trial.candidate, nearest.meets) == (large, False)
    with pytest.raises(ValueError, match="no trial"):
        choose([], goals)


def test_settings_are_a_command_to_paste() -> None:
    candidate = Candidate(1024, None, 80.0, 62.5, 30.0)
    assert candidate.command("orders") == (
        "penstock queues set orders capacity-bytes=1024 stop-percent=80 resume-percent=62.5 hold-deadline=30"
    )
    assert Candidate().command("orders") == "(the defaults of queue orders)"


def test_simulations_in_several_processes_equal_those_in_one_process() -> None:
    """Progress is told for each of them, and the picture has a mark for each."""
    workload = Workload((Source("poisson", 100, (300.0,)),), (Worker("exponential", (250.0,)),), 2.0)
    told: list[tuple[int, int]] = []
    candidates = AXES.candidates()
    trials = run_trials(workload, candidates, lambda done, of: told.append((done, of)), cores=2)
    assert told == [(done, len(candidates)) for done in range(1, len(candidates) + 1)]
    assert trials == run_trials(workload, candidates, lambda done, of: None, cores=1)
    goals = parse("blocked<100%")
    picture = draw(trials, choose(trials, goals), goals, "<orders>")
    assert picture.count("<title>") == len(trials)
    assert "&lt;orders&gt;" in picture
