"""The simulation against the theory of a queue with two thresholds: M|M|1 and M|D|1 within 2 %."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock_simulation.candidate import Candidate
from penstock_simulation.outcome import Outcome
from penstock_simulation.simulation import simulate
from penstock_simulation.workload import Source, Worker, Workload
from tests.support.threshold_theory import Cycle, md1, mm1

SERVICES = 1000.0
WITHIN = 0.02
Theory = Callable[[float, float, int, int], Cycle]


def simulated(kind: str, arrivals: float, stop: int, resume: int, seconds: float) -> Outcome:
    """Simulate a queue whose source stands still while its gate is closed, without a network."""
    source = Source("poisson", rates=(arrivals,), pauses=True)
    workload = Workload((source,), (Worker(kind, (SERVICES,)),), seconds, round_trip_s=0)
    settings = Candidate(
        capacity_messages=2 * stop,
        stop_percent=50,
        resume_percent=50 * resume / stop,
        hold_deadline_s=0,
        prefetch=None,
    )
    return simulate(workload, settings)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "theory"), [("exponential", mm1), ("constant", md1)])
@pytest.mark.parametrize(
    ("arrivals", "stop", "resume"), [(2000, 8, 3), pytest.param(1500, 10, 5, marks=pytest.mark.long)]
)
def test_cycle_return_time_and_time_above_stop(
    kind: str, theory: Theory, arrivals: float, stop: int, resume: int
) -> None:
    found, expected = simulated(kind, arrivals, stop, resume, 120), theory(arrivals, SERVICES, stop, resume)
    assert found.crossings > 5_000
    assert found.depth_messages == stop + 1
    assert found.cycle_s == pytest.approx(expected.cycle_s, rel=WITHIN)
    assert found.return_s == pytest.approx(expected.return_s, rel=WITHIN)
    assert found.above_stop == pytest.approx(expected.above_stop, rel=WITHIN)
    assert found.closed == found.blocked == pytest.approx(expected.closed, rel=WITHIN)


def test_theory_of_a_threshold_of_one_message() -> None:
    """Stop 0, resume 0: a message goes in and closes the gate, and its departure opens it."""
    for theory in (mm1, md1):
        cycle = theory(4.0, 2.0, 1, 0)
        # From empty: a first arrival, then a second one before the departure, or again from empty.
        assert cycle.return_s > 0.5
    assert mm1(4.0, 2.0, 0, 0).cycle_s == pytest.approx(0.25 + 0.5)
