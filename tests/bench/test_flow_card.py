"""The flow-control scorecard: its reckoning, and a small real run of its experiments against our broker."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

import penstock
from bench import brokers
from bench.flow import experiments
from bench.flow.card import EXPERIMENTS, Cell, by_key, met, table, worst
from bench.flow.experiments import KIB_64, Found, longest_gap, percentile, rounds_missed
from bench.flow.parties import Target
from tests.support.stalls import undisturbed


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    form = brokers.COMPILED if penstock.compiled() else brokers.INTERPRETED
    running = brokers.start_penstock(form, tmp_path_factory.mktemp("broker"))
    yield Target(f"amqp://guest:guest@127.0.0.1:{running.port}/", ours=True)
    running.stop()


def test_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3.0], 0.99) == 3.0
    assert [percentile([float(value) for value in range(100)], share) for share in (0.5, 0.9, 0.99)] == [50, 90, 99]


def test_who_gets_nothing_in_a_round_is_missed() -> None:
    assert rounds_missed([0, 1, 0, 1], 2, 2) == 0
    assert rounds_missed([0, 0, 1, 1, 0, 1], 2, 3) == 2
    assert rounds_missed([0, 0], 2, 0) == 0


def test_longest_gap_of_a_party_counts_messages_and_the_ends_too() -> None:
    assert longest_gap([0, 1, 0, 1], 2) == 2
    assert longest_gap([0, 0, 0, 1, 0], 2) == 4
    assert longest_gap([0, 0, 0], 2) == 4


def overshot(over: int, condition: str, broker: str = "ours") -> Cell:
    return Cell("overshoot", broker, condition, {"over": over, "refused": 0, "sessions_lost": 0})


def test_table_shows_the_worst_cell_and_a_miss_with_its_condition() -> None:
    cells = [overshot(0, "1 x 50"), overshot(3, "64 x 1000"), overshot(7, "8 x 50", "theirs")]
    assert worst(cells[:2]).condition == "64 x 1000"
    assert not met(cells[:2])
    lines = table(cells, ["ours", "theirs"], "ours").splitlines()
    assert len(lines) == 2
    assert "3 over" in lines[1]
    assert "7 over" in lines[1]
    assert lines[1].endswith("MISSED (64 x 1000)")
    assert table(cells[:1], ["ours"], "ours").splitlines()[1].endswith("met")


def test_every_experiment_has_words_and_a_verdict_for_what_nobody_could_measure() -> None:
    nothing = {"p50_ms": None, "p90_ms": None, "p99_ms": None}
    assert by_key("resume").words(nothing) == "p50 -, p90 -, p99 - ms"
    assert not by_key("resume").met(nothing)
    assert len({experiment.key for experiment in EXPERIMENTS}) == len(EXPERIMENTS)


def measured(
    target: Target, experiment: Callable[[], Coroutine[Any, Any, Found]], judge: Callable[[Found], None]
) -> None:
    """Run an experiment and judge it: another one after a stall, for each is a matter of seconds."""

    def run() -> None:
        judge(asyncio.run(experiment()))

    port = urlsplit(target.url).port
    assert port is not None
    undisturbed(run, ("127.0.0.1", port))


def test_nothing_goes_past_the_capacity_and_nobody_is_refused(target: Target) -> None:
    def judge(found: Found) -> None:
        assert found == {"depth": 51, "capacity": 51, "over": 0, "refused": 0, "sessions_lost": 0}

    measured(target, lambda: experiments.overshoot(target, 3, 60, KIB_64), judge)


def test_behind_a_gate_that_stays_closed_one_message_is_confirmed_late_and_the_next_are_refused(
    target: Target,
) -> None:
    def judge(found: Found) -> None:
        assert found["confirmed"] == found["depth"] < found["capacity"], "there is room when the publisher is refused"
        assert found["refused"] >= 2
        assert found["late"] >= 1

    measured(target, lambda: experiments.standstill(target, 1, 2), judge)


def test_paced_consumer_tells_shares_and_order(target: Target) -> None:
    def judge(found: Found) -> None:
        assert found["out_of_order"] == 0
        assert sum(found["shares"]) > 0
        assert abs(found["shares"][0] - found["shares"][1]) <= 4
        assert found["refused"] == 0

    measured(target, lambda: experiments.pace(target, [20, 20], KIB_64, 0.5), judge)


def test_resume_and_a_blocked_neighbour_are_measured(target: Target) -> None:
    def judge_resume(found: Found) -> None:
        assert found["cycles"] == 2

    def judge_isolation(found: Found) -> None:
        assert found["consumer_rate"] > 0

    measured(target, lambda: experiments.resume(target, 2), judge_resume)
    measured(target, lambda: experiments.isolation(target, 0.2), judge_isolation)


def test_crowd_passes_one_by_one_in_order(target: Target) -> None:
    def judge(found: Found) -> None:
        assert (found["waiting"], found["messages"], found["out_of_order"]) == (30, 60, 0)

    measured(target, lambda: experiments.crowd(target, 30, 4, lambda: 0.0), judge)
