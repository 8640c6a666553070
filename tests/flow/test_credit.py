"""A window and what is out of it."""

from __future__ import annotations

from penstock.flow.credit import SERIAL, Credit, LinkCredit
from penstock.flow.level import UNLIMITED


def test_window_of_zero_is_no_bound() -> None:
    credit = Credit(0)
    credit.spend(1000, 0)
    assert credit.left() == UNLIMITED


def test_what_is_out_counts_until_it_is_settled() -> None:
    credit = Credit(3)
    credit.spend(2, 0)
    assert credit.left() == 1
    credit.spend(1, 0)
    assert credit.left() == 0
    credit.restore(2, 0)
    assert credit.left() == 2


def test_window_that_is_made_smaller_in_use_leaves_nothing_rather_than_less() -> None:
    credit = Credit(5)
    credit.spend(4, 0)
    credit.window = 2
    assert credit.left() == 0


def test_window_in_bytes_admits_what_fits_and_a_large_one_alone() -> None:
    credit = Credit(0, 1000)
    assert credit.admits(0, 0, 5000), "alone a message passes, however large"
    assert credit.admits(1, 400, 600)
    assert not credit.admits(1, 400, 601)
    credit.spend(1, 900)
    assert credit.admits(0, 0, 100)
    assert not credit.admits(0, 0, 101)
    credit.restore(1, 900)
    assert credit.admits(0, 0, 5000)


def test_window_of_no_bytes_is_one_message_at_a_time() -> None:
    credit = Credit(0, 0)
    assert credit.admits(0, 0, 10)
    assert not credit.admits(1, 10, 1)
    credit.spend(1, 10)
    assert not credit.admits(0, 0, 1)


def test_window_describes_what_is_out_of_it() -> None:
    credit = Credit(3)
    credit.spend(3, 0)
    assert credit.describe() == "out of credit: 3 unacknowledged of a prefetch of 3"


def test_link_credit_is_granted_and_spent_and_not_restored() -> None:
    credit = LinkCredit()
    assert (credit.bounded(), credit.left()) == (True, 0)
    assert credit.describe() == "its receiver has granted no credit"
    credit.grant(0, 3)
    assert credit.left() == 3
    credit.spend(2, 20)
    assert (credit.left(), credit.out, credit.delivery_count) == (1, 2, 2)
    credit.restore(2, 20)
    assert (credit.left(), credit.out, credit.out_bytes) == (1, 0, 0)


def test_grant_replaces_the_credit_and_counts_deliveries_that_the_receiver_has_not_seen() -> None:
    credit = LinkCredit()
    credit.grant(0, 10)
    credit.spend(6, 0)
    credit.grant(4, 10)
    assert credit.left() == 8, "the receiver has seen four of six"
    credit.grant(6, 1)
    assert credit.left() == 1, "less than before"
    credit.grant(2, 3)
    assert credit.left() == 0, "all of it was on its way"


def test_drained_credit_counts_as_spent() -> None:
    credit = LinkCredit()
    credit.grant(0, 10)
    credit.spend(4, 0)
    assert credit.drain() == 6
    assert (credit.left(), credit.delivery_count) == (0, 10)
    assert credit.drain() == 0
    credit.grant(10, 2)
    assert credit.left() == 2


def test_delivery_counts_wrap_around() -> None:
    credit = LinkCredit(SERIAL - 2)
    credit.grant(SERIAL - 2, 5)
    credit.spend(4, 0)
    assert (credit.left(), credit.delivery_count) == (1, 2)
    credit.grant(SERIAL - 1, 5)
    assert credit.left() == 2, "three are on their way"
    assert credit.drain() == 2
    assert credit.delivery_count == 4


def test_link_may_have_a_window_in_bytes_too_which_settlement_restores() -> None:
    credit = LinkCredit(window_bytes=100)
    credit.grant(0, 10)
    credit.spend(1, 80)
    assert not credit.admits(0, 0, 30)
    credit.restore(1, 80)
    assert credit.admits(0, 0, 30)
