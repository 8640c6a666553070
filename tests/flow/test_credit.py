"""A window and what is out of it."""

from __future__ import annotations

from penstock.flow.credit import Credit
from penstock.flow.level import UNLIMITED


def test_a_window_of_zero_is_no_bound() -> None:
    credit = Credit(0)
    credit.spend(1000)
    assert credit.left() == UNLIMITED


def test_what_is_out_counts_until_it_is_settled() -> None:
    credit = Credit(3)
    credit.spend(2)
    assert credit.left() == 1
    credit.spend(1)
    assert credit.left() == 0
    credit.restore(2)
    assert credit.left() == 2


def test_a_window_that_is_made_smaller_in_use_leaves_nothing_rather_than_less() -> None:
    credit = Credit(5)
    credit.spend(4)
    credit.window = 2
    assert credit.left() == 0
