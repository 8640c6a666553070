"""The demo's view of a broker's flow log: it agrees with the counts of the broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.watch import SUM_SECONDS, story, user_of
from penstock.management.flow_log_records import Recorder
from penstock.management.gate_lines import CLOSINGS_AT_ONCE
from tests.support.blocked_producers import QUEUES, BlockedProducers

USER = "guest"
OPERATIONS = st.tuples(
    st.sampled_from(["publish"] * 12 + ["get"] * 4 + ["purge", "wait", "leave"]),
    st.integers(0, 2),
    st.sampled_from([*QUEUES, "both"]),
)


def recorded() -> BlockedProducers:
    play = BlockedProducers()
    play.driver.recorder = Recorder(play.driver.broker)
    return play


@given(st.lists(OPERATIONS, min_size=50, max_size=150))
def test_story_has_all_closings_and_blocks_that_the_broker_counts_and_their_time(operations) -> None:
    play = recorded()
    for operation in operations:
        play.do(*operation)
    for _ in range(9):  # until nothing begins, and what has begun lasts and is told; waits end at multiples of 10 s
        play.now += 1.0
        play.user.listen(play.now)
    play.driver.tick()
    records = play.driver.take_records()
    for queue in QUEUES:
        told = story(records, queue, play.now)
        stats = play.driver.broker.vhosts["/"].queues[queue].gate.stats
        view = stats.as_dict(play.now)
        blocks = [*stats.blocks.values(), *(stats.departed or ())]
        spans = told.blocked.get(USER, [])
        assert told.closings == view["crossings"]
        assert sum(span.seconds for span in told.closed) == pytest.approx(view["closed_s"])
        assert sum(span.count for span in spans) == sum(block.times for block in blocks)
        assert sum(span.seconds for span in spans) == pytest.approx(sum(block.blocked_s(play.now) for block in blocks))


def test_closings_that_are_summed_are_a_span_of_a_second_with_their_part_of_it() -> None:
    play = recorded()
    brief = 3
    for _ in range(CLOSINGS_AT_ONCE + brief):
        for _ in range(4):
            play.do("publish", 0, "orders")
        play.now += 0.05
        play.user.listen(play.now)
        play.do("purge", 0, "orders")
    play.driver.tick()
    told = story(play.driver.take_records(), "orders", play.now)
    assert len(told.crossings) == 2 * CLOSINGS_AT_ONCE
    assert [span.count for span in told.closed] == [1] * CLOSINGS_AT_ONCE + [brief]
    last = told.closed[-1]
    assert (last.end - last.begin, last.share) == (SUM_SECONDS, pytest.approx(brief * 0.05))


def test_another_queues_closings_are_passed_over() -> None:
    play = recorded()
    for _ in range(4):
        play.do("publish", 0, "orders")
    records = play.driver.take_records()
    assert story(records, "orders", 0.0).closings == 1
    assert story(records, "audit", 0.0).closings == story(records, "order", 0.0).closings == 0


def test_name_without_a_user_is_kept_whole() -> None:
    assert user_of("someone") == "someone"
