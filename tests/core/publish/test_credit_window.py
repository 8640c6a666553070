"""Credit window of a link: its two bounds, the cautious first grant, and the charge of a message."""

from __future__ import annotations

from penstock.core.publish.credit_window import FIRST_MESSAGE_OCTETS, CreditWindow
from penstock.flow.level import OVERHEAD


def test_first_grant_is_small_and_later_grants_fill_the_window() -> None:
    window = CreditWindow(message_octets=1000)
    assert window.is_size_known
    assert int(window.wanted(0)) == 64
    window.on_granted()
    assert int(window.charge) == 1000 + OVERHEAD
    assert int(window.wanted(0)) == (1 << 20) // (1000 + OVERHEAD)
    window.count(64, 300)
    assert int(window.wanted(0)) == 1000


def test_credit_grows_with_arrived_messages_of_unannounced_size() -> None:
    window = CreditWindow()
    assert int(window.charge) == FIRST_MESSAGE_OCTETS + OVERHEAD
    assert int(window.wanted(0)) == 64
    window.on_granted()
    assert int(window.wanted(0)) == 1, "nothing has come: a trial"
    found = []
    for messages in (1, 2, 100, 200, 500):
        window.count(messages, 300)
        found.append((int(window.wanted(0)), window.is_size_known))
    assert found == [(2, False), (6, False), (206, False), (606, False), (1000, True)]
    window.count(64, 1 << 14)
    assert int(window.wanted(0)) == 64, "the bytes of the window count at all times"


def test_credit_window_requests_no_more_while_half_is_unused() -> None:
    window = CreditWindow(10, 1 << 20)
    assert [int(window.wanted(unused)) for unused in (0, 4, 5, 10)] == [10, 6, 0, 0]


def test_credit_window_requests_a_single_message_of_any_size() -> None:
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
