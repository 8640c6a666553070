"""Hold budget of a connection, and the hold room that is reserved in it."""

from __future__ import annotations

from penstock.core.publish.hold_room import (
    ASIDE_BYTES,
    HELD_ON_CREDIT_BYTES,
    HoldBudget,
    HoldRoom,
    HoldShare,
    hold_room_of,
)
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER
from tests.support.broker_fixture import House


def make_room(bound: int = 1000) -> HoldRoom:
    return HoldRoom(House().broker.turns, "1", HoldBudget(bound))


def test_hold_budget_takes_a_single_message_of_any_size_and_then_up_to_the_bound() -> None:
    budget = HoldBudget(1000)
    assert budget.fits(5000)
    budget.take(600, 1)
    assert budget.fits(400)
    assert not budget.fits(401)
    budget.release(600, 1)
    assert budget.fits(5000)


def test_message_on_credit_is_held_beyond_the_budget_up_to_a_separate_bound() -> None:
    budget = HoldBudget(1000)
    budget.take(1000, 1)
    budget.reserved = 500
    assert not budget.fits(1)
    assert budget.fits_on_credit(HELD_ON_CREDIT_BYTES - 1000)
    assert not budget.fits_on_credit(HELD_ON_CREDIT_BYTES - 999)
    budget.release(1000, 1)
    assert budget.fits_on_credit(2 * HELD_ON_CREDIT_BYTES)
    in_transactions = HoldBudget(2 * HELD_ON_CREDIT_BYTES)
    in_transactions.take(1000, 1)
    assert in_transactions.fits_on_credit(2 * HELD_ON_CREDIT_BYTES - 1000)


def test_hold_room_is_the_budget_less_held_and_reserved_messages() -> None:
    room = make_room()
    share = HoldShare(room)
    share.recharge(100)
    assert int(share.grant(100)) == 3, "a quarter of ten"
    room.budget.take(500, 5)
    assert int(room.free()) == 200
    assert int(share.grant(100)) == 1
    assert room.budget.fits(100)
    assert not room.budget.fits(200)
    room.budget.release(500, 5)
    share.release(4)
    assert (int(room.free()), int(room.budget.reserved)) == (1000, 0)


def test_unused_hold_budget_has_room_for_a_message_of_any_size() -> None:
    share = HoldShare(make_room())
    share.recharge(5000)
    assert int(share.grant(10)) == 1
    assert int(share.grant(10)) == 0


def test_room_is_taken_for_as_many_messages_as_fit_and_a_quarter_is_left_for_grants() -> None:
    share = HoldShare(make_room())
    assert int(share.take(25, 100)) == 7
    assert int(share.take(25, 100)) == 0
    assert int(share.grant(25)) == 1


def test_larger_charge_is_reserved_only_if_there_is_room() -> None:
    share = HoldShare(make_room())
    share.take(4, 100)
    share.recharge(200)
    assert int(share.room.budget.reserved) == 800
    share.recharge(300)
    assert (int(share.charge), int(share.room.budget.reserved)) == (200, 800)
    share.recharge(50)
    assert int(share.room.budget.reserved) == 200


def test_connection_has_a_single_hold_room_and_reports_the_used_part() -> None:
    house = House()
    budget = HoldBudget(1000)
    room = hold_room_of(house.broker.turns, budget, "1")
    assert hold_room_of(house.broker.turns, budget, "1") is room
    budget.take(300, 1)
    assert "300 bytes are held and 0 are reserved" in room.gate.describe_refusal()


def test_open_units_of_work_leave_room_to_credit() -> None:
    budget = HoldBudget(10_000)
    room = HoldRoom(House().broker.turns, "1", budget, 1000)
    budget.take(900, 1)
    assert (room.free(), room.is_unused()) == (100, False)
    budget.uncommitted = 900
    assert (room.free(), room.is_unused()) == (1000, True)


def test_credit_set_aside_takes_no_room_and_has_a_bound_for_the_connection() -> None:
    room = make_room()
    share, other = HoldShare(room), HoldShare(room)
    assert int(share.set_aside(10, 100)) == 10
    assert (int(room.free()), int(share.count()), int(share.bytes())) == (1000, 10, 1000)
    share.recharge(50)
    share.take(4, 50)
    assert (int(room.budget.reserved), int(share.count()), int(share.bytes())) == (200, 14, 1200)
    assert int(other.set_aside(100, ASIDE_BYTES // 10)) == 9, "one tenth less 1,000 is not free"
    assert int(other.set_aside(1, ASIDE_BYTES // 10)) == 0
    share.release(5)
    assert (int(share.aside), int(share.aside_bytes), int(share.messages)) == (5, 500, 4)
    assert int(share.set_own_aside(0)) == 4
    assert (int(room.budget.reserved), int(share.aside), int(share.aside_bytes)) == (0, 9, 700)
    share.release(9)
    other.release(9)
    assert (int(room.aside_bytes), int(share.bytes()), int(other.bytes())) == (0, 0, 0)


def test_hold_share_is_the_drain_of_half_a_deadline_and_fades_without_drain() -> None:
    budget = HoldBudget(1000)
    assert budget.share(100.0) == UNLIMITED, "nothing is measured yet"
    budget.count_drained(500, NEVER, 100.0)
    assert budget.share(100.0) == UNLIMITED, "without a deadline there is no share"
    for tenth in range(1000):
        budget.count_drained(100, 10.0, 100.0 + tenth / 10)
    assert 4900 <= int(budget.share(200.0)) <= 5100, "1,000 bytes a second, for five seconds"
    assert int(budget.share(205.0)) < 2500
    assert budget.share(209.0) < 1000
    assert budget.share(211.0) == UNLIMITED, "nothing has passed for a whole deadline"
