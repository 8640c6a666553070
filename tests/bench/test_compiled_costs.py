"""What a message costs the compiled broker: instructions against the recorded values, memory against the promise."""

import pytest

from bench import guard, memory
from bench.hotpath import STEPS


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_step_takes_no_more_instructions_than_recorded(step: str) -> None:
    records, here = guard.read(), guard.surroundings()
    reason = guard.reason_to_skip() or guard.reason_not_to_compare(records, here)
    if reason:
        pytest.skip(reason)
    assert guard.judge(step, guard.per_message(step), guard.recorded(records, here)[step]) is None


@pytest.mark.slow
def test_a_queued_message_takes_less_memory_than_promised_and_no_more_than_it_is_charged() -> None:
    if reason := memory.reason_to_skip():
        pytest.skip(reason)
    found = memory.measure()
    assert found.bytes_per_message < memory.GOAL
    assert found.bytes_per_message <= found.charge
