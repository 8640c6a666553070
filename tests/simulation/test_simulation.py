"""The simulated queue: laws that hold whatever the settings, deadlines, windows, prefetches and the same seed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PreconditionFailed
from penstock.flow.level import OVERHEAD
from penstock_simulation.candidate import Candidate
from penstock_simulation.simulation import simulate
from penstock_simulation.workload import Source, Worker, Workload

OCTETS = 760
CHARGE = OCTETS + OVERHEAD


def workload(arrivals: float = 500.0, services: float = 400.0, producers: int = 3, **other: float) -> Workload:
    """Return some Poisson producers and one consumer, for ten seconds."""
    source = Source("poisson", OCTETS, (arrivals / producers,))
    return Workload((source,) * producers, (Worker("exponential", (services,)),), **{"seconds": 10.0, **other})  # type: ignore[arg-type]


@given(
    capacity=st.integers(2, 50),
    stop=st.integers(10, 100),
    resume=st.integers(0, 100),
    window=st.integers(1, 40),
    prefetch=st.sampled_from([None, 1, 5, 50]),
    deadline=st.sampled_from([0.0, 0.05, 1.0]),
    seed=st.integers(0, 1000),
)
def test_depth_is_never_above_capacity_and_every_publish_has_one_outcome(
    capacity: int, stop: int, resume: int, window: int, prefetch: int | None, deadline: float, seed: int
) -> None:
    settings = Candidate(None, capacity, float(stop), float(min(stop, resume)), deadline, window, prefetch)
    found = simulate(workload(seconds=1.0, seed=seed), settings)
    assert found.depth_messages <= capacity
    assert found.depth <= capacity * CHARGE
    assert found.settled <= found.confirmed + 3 * window
    assert found.confirmed + found.refused <= found.offered
    assert 0 <= found.starved <= 1
    assert 0 <= found.blocked <= 1
    assert found.closed <= 1
    if deadline == 0.0:
        assert found.refused == 0


def test_seed_determines_the_outcome() -> None:
    settings = Candidate(capacity_messages=20)
    assert simulate(workload(), settings) == simulate(workload(), settings)
    assert simulate(workload(seed=2), settings) != simulate(workload(), settings)


def test_queue_without_pressure_blocks_no_producer() -> None:
    found = simulate(workload(arrivals=100, services=400), Candidate())
    assert (found.blocked, found.closed, found.crossings, found.refused) == (0, 0, 0, 0)
    assert found.wait_p50 == pytest.approx(0.001, rel=0.06)  # Only the round trip of a confirm.


def test_slow_consumer_blocks_producers_for_the_rest_of_their_time() -> None:
    """What is published beyond the consumer's rate waits: the gate is closed nearly all the time."""
    found = simulate(workload(arrivals=500, services=100), Candidate(capacity_messages=20, hold_deadline_s=0, window=2))
    assert found.blocked > 0.8
    assert found.settled == pytest.approx(1000, rel=0.1)


def test_hold_deadline_refuses_publishes_that_wait_longer() -> None:
    settings = Candidate(capacity_messages=5, hold_deadline_s=1, window=100)
    found = simulate(workload(arrivals=100, services=1), settings)
    assert found.refused > 0


def test_prefetch_of_one_starves_a_consumer_far_away() -> None:
    """One message per round trip of 100 ms: 10 of 400 per second."""
    far = workload(arrivals=500, services=400, round_trip_s=0.1)
    near = simulate(far, Candidate(capacity_messages=100, prefetch=100))
    alone = simulate(far, Candidate(capacity_messages=100, prefetch=1))
    assert alone.settled < near.settled / 10
    assert alone.starved > 0.5


def test_contradictory_settings_are_refused_by_the_broker() -> None:
    with pytest.raises(PreconditionFailed, match="resume"):
        simulate(workload(), Candidate(capacity_messages=100, stop_percent=50, resume_percent=60))
