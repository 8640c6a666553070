"""An open gate waits for those whose confirms it withheld; who is ahead of them waits for its turn."""

from __future__ import annotations

import pytest

from penstock.flow.gate import Gate, GateOwner
from penstock.flow.turns import AHEAD_BYTES, CALM_S, RETURN_GRACE_S, Turns
from tests.support.flow_waiters import Walker

PASSED = 3 * AHEAD_BYTES
LATE = RETURN_GRACE_S + 0.001


class Returning(Walker):
    def will_return_soon(self) -> bool:
        return True


class Backlog(GateOwner):
    """The owner of a gate whose consumers have enough, or not."""

    def __init__(self) -> None:
        self.enough = True
        self.reviews = 0

    def update_gate(self, now: float) -> None:
        self.reviews += 1

    def may_defer_turn(self) -> bool:
        return self.enough


class Place:
    """An open gate at which two producers had their confirms withheld; the first one has passed more."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.owner = Backlog()
        self.gate = Gate("queue", "q", self.turns.transitions)
        self.gate.owner = self.owner
        passed: list[str] = []
        self.ahead = Returning("ahead", self.turns, passed, [self.gate])
        self.behind = Returning("behind", self.turns, passed, [self.gate])
        self.turns.expect_back(self.ahead, self.gate, PASSED, 0.0)
        self.turns.expect_back(self.behind, self.gate, 0, 0.0)

    def passes(self, who: Walker, size: int = 1, now: float = 0.0) -> bool:
        return self.turns.pass_at_once(who, self.gate, size, now)


@pytest.fixture
def place() -> Place:
    return Place()


def test_publish_far_ahead_of_one_that_returns_waits_until_that_one_has_caught_up(place: Place) -> None:
    assert not place.passes(place.ahead)
    assert place.passes(place.behind, PASSED - AHEAD_BYTES)
    assert place.passes(place.ahead)
    assert not place.passes(place.ahead)


def test_nobody_waits_for_one_that_is_too_late(place: Place) -> None:
    assert not place.passes(place.ahead)
    assert place.passes(place.ahead, now=LATE)
    assert (place.gate.returning, place.behind.expected_at) == ([], None)


def test_nobody_is_waited_for_while_consumers_could_run_dry_and_what_passes_counts(place: Place) -> None:
    place.gate.turned_at = 0.0
    place.owner.enough = False
    assert place.passes(place.ahead)
    place.owner.enough = True
    assert place.passes(place.behind, PASSED - AHEAD_BYTES)
    assert not place.passes(place.ahead)


def test_nobody_is_waited_for_any_more_at_a_short_queue_without_turns(place: Place) -> None:
    place.owner.enough = False
    assert place.passes(place.ahead)
    assert place.gate.returning == []


def test_one_that_uses_credit_is_waited_for_on_and_its_messages_count_no_second_time(place: Place) -> None:
    position = place.behind.finish
    place.turns.expect_more(place.behind, place.gate, RETURN_GRACE_S / 2)
    assert place.behind.finish == position
    place.turns.expect_more(place.ahead, place.gate, RETURN_GRACE_S / 2)
    assert not place.passes(place.ahead, now=LATE)
    place.turns.expect_more(place.behind, place.gate, 2 * LATE)
    assert place.passes(place.ahead, now=2 * LATE)


def test_waiter_in_line_gives_way_to_one_that_returns_and_has_an_earlier_position(place: Place) -> None:
    place.ahead.stand()
    assert place.turns.run(10, 0.0) == 0
    place.turns.timers.run(LATE)
    assert place.turns.run(10, LATE) == 1


def test_each_is_listed_once_however_often_it_passes(place: Place) -> None:
    for _ in range(1000):
        assert place.passes(place.behind)
    assert len(place.gate.returning) == 2


def test_those_that_do_not_return_are_forgotten_by_a_timer_and_the_gate_is_reviewed(place: Place) -> None:
    reviews = place.owner.reviews
    place.turns.timers.run(CALM_S + 0.001)
    assert (place.gate.returning, place.ahead.expected_at, place.behind.expected_at) == ([], None, None)
    assert place.owner.reviews > reviews
    assert place.turns.timers.next() is None
