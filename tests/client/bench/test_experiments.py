"""Experiments of the flow-control scorecard: their arithmetic, and small real runs against our broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.client.bench import experiments
from penstock.client.bench.experiments import KIB_64, Found, longest_gap, percentile, rounds_missed
from penstock.client.bench.flow_parties import Place
from penstock.client.bench.target import Target
from tests.support.stalls import undisturbed


@pytest.fixture
def place(target: Target) -> Place:
    return Place(target, ("amqp091",))


def test_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3.0], 0.99) == 3.0
    assert [percentile([float(value) for value in range(100)], share) for share in (0.5, 0.9, 0.99)] == [50, 90, 99]


def test_round_without_a_message_of_a_party_is_missed() -> None:
    assert rounds_missed([0, 1, 0, 1], 2, 2) == 0
    assert rounds_missed([0, 0, 1, 1, 0, 1], 2, 3) == 2
    assert rounds_missed([0, 0], 2, 0) == 0


def test_longest_gap_of_a_party_counts_messages_and_the_ends_too() -> None:
    assert longest_gap([0, 1, 0, 1], 2) == 2
    assert longest_gap([0, 0, 0, 1, 0], 2) == 4
    assert longest_gap([0, 0, 0], 2) == 4


def measured(place: Place, run: Callable[[], Coroutine[Any, Any, Found]], judge: Callable[[Found], None]) -> None:
    """Run an experiment and judge it: another one after a stall, for each is a matter of seconds."""
    port = urlsplit(place.target.url).port
    assert port is not None
    undisturbed(lambda: judge(asyncio.run(run())), ("127.0.0.1", port))


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_depth_never_passes_the_capacity_and_no_publish_is_refused(target: Target, protocol: str) -> None:
    place = Place(target, (protocol,))

    def judge(found: Found) -> None:
        assert 0 < found["depth"] <= found["capacity"] == 51
        assert (found["over"], found["refused"], found["sessions_lost"]) == (0, 0, 0)

    measured(place, lambda: experiments.overshoot(place, 3, 60, KIB_64), judge)


def test_gate_that_stays_closed_takes_a_message_and_refuses_the_next(place: Place) -> None:
    def judge(found: Found) -> None:
        assert found["confirmed"] == found["depth"] < found["capacity"], "there is room when the publisher is refused"
        assert found["refused"] >= 2 or found["waits"]

    measured(place, lambda: experiments.standstill(place, 1, 2), judge)


def test_pace_has_the_shares_of_publishers_and_the_order(place: Place) -> None:
    def judge(found: Found) -> None:
        assert found["out_of_order"] == 0
        assert 1 <= found["unfairness"] < 2
        assert found["refused"] == 0
        assert found["crossings/s"] > 0

    measured(place, lambda: experiments.pace(place, [20, 20], KIB_64, 0.5), judge)


def test_resume_has_a_delay_for_each_cycle(place: Place) -> None:
    def judge(found: Found) -> None:
        assert found["cycles"] == 2
        assert 0 < found["p50_ms"] <= found["p99_ms"]

    measured(place, lambda: experiments.resume(place, 2), judge)


def test_isolation_compares_the_rates_with_and_without_a_blocked_publisher(place: Place) -> None:
    def judge(found: Found) -> None:
        assert found["consumer_rate"] > 0
        assert found["publisher"] > 0

    measured(place, lambda: experiments.isolation(place, 0.2), judge)


def test_crowd_passes_singly_in_order(place: Place) -> None:
    def judge(found: Found) -> None:
        assert (found["waiting"], found["messages"], found["out_of_order"]) == (30, 60, 0)

    measured(place, lambda: experiments.crowd(place, 30, 4, lambda: 0.0), judge)
