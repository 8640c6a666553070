"""A window and what is out of it."""

from __future__ import annotations

from penstock.flow.credit import Credit
from penstock.flow.level import UNLIMITED


def test_a_window_of_zero_is_no_bound() -> None:
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


def test_a_window_that_is_made_smaller_in_use_leaves_nothing_rather_than_less() -> None:
    credit = Credit(5)
    credit.spend(4, 0)
    credit.window = 2
    assert credit.left() == 0


def test_a_window_in_bytes_admits_what_fits_and_a_large_one_alone() -> None:
    credit = Credit(0, 1000)
    assert credit.admits(0, 0, 5000), "alone a message passes, however large"
    assert credit.admits(1, 400, 600)
    assert not credit.admits(1, 400, 601)
    credit.spend(1, 900)
    assert credit.admits(0, 0, 100)
    assert not credit.admits(0, 0, 101)
    credit.restore(1, 900)
    assert credit.admits(0, 0, 5000)


def test_a_window_of_no_bytes_is_one_message_at_a_time() -> None:
    credit = Credit(0, 0)
    assert credit.admits(0, 0, 10)
    assert not credit.admits(1, 10, 1)
    credit.spend(1, 10)
    assert not credit.admits(0, 0, 1)
