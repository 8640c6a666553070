"""The guard of instructions per message: its verdicts, its records and its counts."""

import pytest

from bench import guard, hotpath10
from bench.hotpath import STEPS, Bench, check


def test_instructions_3_percent_above_the_record_pass_and_more_fails() -> None:
    assert guard.judge("publish", 1030, 1000) is None
    assert guard.judge("publish", 1031, 1000) == (
        "publish takes 1031 instructions per message, 3.1% more than the recorded 1000."
    )


def test_values_of_other_surroundings_are_not_compared() -> None:
    here = guard.surroundings()
    elsewhere = guard.merged([], here | {"python": "2.7"}, {"publish": 1000}, "first")
    assert guard.recorded(elsewhere, here) == {}
    assert guard.reason_not_to_compare(elsewhere, here) == (
        f"The values were recorded with python 2.7 and not {here['python']}."
    )
    assert guard.reason_not_to_compare([], here) is not None


def test_recording_replaces_the_values_of_the_same_surroundings_only() -> None:
    here, there = guard.surroundings(), guard.surroundings() | {"python": "2.7"}
    records = guard.merged(guard.merged([], here, {"publish": 1000}, "first"), there, {"publish": 7}, "first")
    records = guard.merged(records, there, {"publish": 8}, "better")
    assert guard.recorded(records, here) == {"publish": 1000}
    assert guard.recorded(records, there) == {"publish": 8}
    assert guard.reason_not_to_compare(records, here) is None
    assert [record["note"] for record in records] == ["first", "better"]


@pytest.mark.parametrize("step", STEPS)
def test_step_does_the_counted_operations(step: str) -> None:
    bench = Bench()
    STEPS[step](bench, 300)
    check(step, bench, 300)


@pytest.mark.parametrize("step", hotpath10.STEPS)
def test_step_over_amqp_1_0_does_the_counted_operations(step: str) -> None:
    bench = hotpath10.Bench10()
    hotpath10.STEPS[step](bench, 300)
    hotpath10.check(step, bench, 300)


def test_step_that_did_less_is_noticed() -> None:
    bench = Bench()
    bench.publish(200)
    with pytest.raises(AssertionError, match="publish of 300"):
        check("publish", bench, 300)
