"""Window of a link: its two bounds, the caution of the first grant, and the charge of a message of credit."""

from __future__ import annotations

from penstock.core.message import OVERHEAD
from penstock.core.publish.credit_window import FIRST_MESSAGE_OCTETS, CreditWindow


def test_first_grant_is_small_and_later_ones_fill_the_window() -> None:
    window = CreditWindow()
    assert int(window.wanted(0)) == 64
    window.on_granted()
    assert int(window.charge) == FIRST_MESSAGE_OCTETS + OVERHEAD
    assert int(window.wanted(0)) == (1 << 20) // (FIRST_MESSAGE_OCTETS + OVERHEAD)
    window.count(64, 300)
    assert int(window.wanted(0)) == 1000


def test_nothing_is_wanted_while_half_of_the_window_is_unused() -> None:
    window = CreditWindow(10, 1 << 20)
    assert [int(window.wanted(unused)) for unused in (0, 4, 5, 10)] == [10, 6, 0, 0]


def test_one_message_is_wanted_however_large() -> None:
    window = CreditWindow(10, 1 << 20)
    window.on_granted()
    window.count(1, 1 << 30)
    assert int(window.wanted(0)) == 1
    assert int(window.wanted(1)) == 0
    assert int(CreditWindow(0, 0).wanted(0)) == 1


def test_charge_is_the_largest_of_the_last_64_messages() -> None:
    window = CreditWindow()
    window.count(1, 5000)
    assert int(window.charge) == 5000
    window.count(63, 300)
    assert int(window.charge) == 5000
    window.count(63, 400)
    assert int(window.charge) == 5000
    window.count(1, 300)
    assert int(window.charge) == 400
    window.count(0, 9000)
    assert int(window.charge) == 400
