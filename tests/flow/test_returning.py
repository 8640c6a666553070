"""An open gate waits for the producers whose confirms it withheld, and those ahead wait for their turn."""

from __future__ import annotations

import pytest

from penstock.flow.turns import AHEAD_BYTES, CALM_S, RETURN_GRACE_S
from tests.support.broker_fixture import House
from tests.support.flow_waiters import Walker

CAPACITY = 100
ENOUGH = 40
"""Messages in the queue with which its consumers have enough for a moment."""

PASSED = 3 * AHEAD_BYTES
LATE = RETURN_GRACE_S + 0.001


class Returning(Walker):
    def will_return_soon(self) -> bool:
        return True


class Place:
    """An open gate at which two producers had their confirms withheld; the first one has passed more."""

    def __init__(self) -> None:
        self.house = House()
        self.house.queue("q", capacity_messages=CAPACITY)
        for _ in range(ENOUGH):
            self.house.publish_now("q", 1)
        self.turns = self.house.broker.turns
        self.queue = self.house.vhost.queues["q"]
        self.gate = self.queue.gate
        passed: list[str] = []
        self.ahead = Returning("ahead", self.turns, passed, [self.gate])
        self.behind = Returning("behind", self.turns, passed, [self.gate])
        self.turns.expect_back(self.ahead, self.gate, PASSED, 0.0)
        self.turns.expect_back(self.behind, self.gate, 0, 0.0)

    def passes(self, who: Walker, size: int = 1, now: float = 0.0) -> bool:
        return self.turns.pass_at_once(who, self.gate, size, now)

    def run_dry(self) -> None:
        """Take so much that consumers could soon have nothing."""
        for _ in range(ENOUGH - 1):
            assert self.house.take("q")


@pytest.fixture
def place() -> Place:
    return Place()


def test_publish_far_ahead_of_a_returning_sender_waits_for_that_sender(place: Place) -> None:
    assert not place.passes(place.ahead)
    assert place.passes(place.behind, PASSED - AHEAD_BYTES)
    assert place.passes(place.ahead)
    assert not place.passes(place.ahead)


def test_gate_stops_waiting_for_a_late_returning_sender(place: Place) -> None:
    assert not place.passes(place.ahead)
    assert place.passes(place.ahead, now=LATE)
    assert (place.gate.returning, place.behind.expected_at) == ([], None)


def test_gate_waits_for_no_sender_while_consumers_could_run_dry(place: Place) -> None:
    place.run_dry()
    place.gate.turned_at = 0.0
    position = place.ahead.finish
    assert place.passes(place.ahead)
    assert place.ahead.finish > position
    assert place.gate.returning


def test_gate_of_a_short_queue_without_turns_waits_for_no_sender(place: Place) -> None:
    place.run_dry()
    place.gate.turned_at = -CALM_S - 1.0
    assert place.passes(place.ahead)
    assert not place.gate.returning


def test_sender_on_credit_is_still_awaited_and_the_messages_count_once(place: Place) -> None:
    position = place.behind.finish
    place.turns.expect_more(place.behind, place.gate, RETURN_GRACE_S / 2)
    assert place.behind.finish == position
    place.turns.expect_more(place.ahead, place.gate, RETURN_GRACE_S / 2)
    assert not place.passes(place.ahead, now=LATE)
    place.turns.expect_more(place.behind, place.gate, 2 * LATE)
    assert place.passes(place.ahead, now=2 * LATE)


def test_waiter_in_line_gives_way_to_a_returning_waiter_with_an_earlier_position(place: Place) -> None:
    place.ahead.stand()
    assert place.turns.run(10, 0.0) == 0
    place.turns.timers.run(LATE)
    assert place.turns.run(10, LATE) == 1


def test_returning_sender_is_listed_once_after_any_number_of_passes(place: Place) -> None:
    for _ in range(1000):
        assert place.passes(place.behind)
    assert len(place.gate.returning) == 2


def test_sender_that_ended_is_not_awaited_and_the_next_waiter_passes(place: Place) -> None:
    place.ahead.stand()
    assert place.turns.run(10, 0.0) == 0
    place.turns.forget(place.behind, 0.0)
    assert (place.gate.returning, place.behind.expected_at) == ([], None)
    assert place.turns.run(10, 0.0) == 1


def test_returning_senders_that_ended_leave_no_timer_and_no_slow_path(place: Place) -> None:
    assert place.queue.fast_path_max_messages <= 0
    for each in (place.ahead, place.behind):
        place.turns.forget(each, 0.0)
    assert (len(place.gate.returning), place.turns.timers.next()) == (0, None)
    assert place.queue.fast_path_max_messages > ENOUGH


def test_sender_that_goes_from_gate_to_gate_is_listed_at_a_single_gate(place: Place) -> None:
    place.house.queue("other", capacity_messages=CAPACITY)
    other = place.house.vhost.queues["other"].gate
    for step in range(1000):
        gate = place.gate if step % 2 else other
        place.turns.expect_back(place.behind, gate, 1, step * RETURN_GRACE_S / 4)
    assert len(place.gate.returning) + len(other.returning) <= 3
