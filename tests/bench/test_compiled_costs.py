"""Cost of a message in the compiled broker: instructions and memory against recorded values."""

import gc

import pytest

import penstock
from bench import guard, memory
from bench.guard import STEPS
from bench.hotpath import BATCH, Bench
from tests.profiles import thorough

MEASURED = tuple(STEPS) if thorough() else ("through",)


@pytest.fixture(scope="module")
def found() -> dict[str, int]:
    """Instructions per message of each step."""
    records, here = guard.read(), guard.surroundings()
    reason = guard.reason_to_skip() or guard.reason_not_to_compare(records, here)
    if reason:
        pytest.skip(reason)
    return guard.per_message(MEASURED)


@pytest.mark.slow
@pytest.mark.parametrize("step", MEASURED)
def test_step_takes_no_more_instructions_than_recorded(found: dict[str, int], step: str) -> None:
    before = guard.recorded(guard.read(), guard.surroundings()).get(step)
    if before is None:
        pytest.skip(f"{step} is not recorded in these surroundings yet; `make guard` with --record does it")
    assert guard.judge(step, found[step], before) is None


def test_queued_messages_are_nothing_that_the_garbage_collector_looks_at() -> None:
    if not penstock.compiled():
        pytest.skip("Penstock runs interpreted here; only a compiled message is free of the garbage collector.")
    bench = Bench()
    bench.publish(BATCH)
    gc.collect()
    before = len(gc.get_objects())
    bench.publish(10_000)
    gc.collect()
    assert len(gc.get_objects()) - before < BATCH


@pytest.mark.slow
def test_queued_message_takes_less_memory_than_the_goal_and_its_charge() -> None:
    if reason := memory.reason_to_skip():
        pytest.skip(reason)
    found = memory.measure()
    assert found.bytes_per_message < memory.GOAL
    assert found.bytes_per_message <= found.charge
