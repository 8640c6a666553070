"""Credit windows, and adaptive windows by Little's law in simulated time."""

from __future__ import annotations

import pytest

from penstock.flow.credit import CYCLE, GAIN, ROUND, SERIAL, AdaptiveWindow, Credit, LinkCredit
from penstock.flow.level import UNLIMITED
from tests.support.simulated_consumer import SimulatedConsumer, uneven


def test_window_of_zero_is_no_bound() -> None:
    credit = Credit(0)
    credit.spend(1000, 0)
    assert credit.left() == UNLIMITED


def test_deliveries_count_in_the_credit_window_until_settled() -> None:
    credit = Credit(3)
    credit.spend(2, 0)
    assert credit.left() == 1
    credit.spend(1, 0)
    assert credit.left() == 0
    credit.restore(2, 0)
    assert credit.left() == 2


def test_window_made_smaller_in_use_leaves_zero_credit_not_less() -> None:
    credit = Credit(5)
    credit.spend(4, 0)
    credit.window = 2
    assert credit.left() == 0


def test_byte_window_admits_messages_that_fit_and_a_large_message_alone() -> None:
    credit = Credit(0, 1000)
    assert credit.admits(0, 0, 5000), "alone a message passes, however large"
    assert credit.admits(1, 400, 600)
    assert not credit.admits(1, 400, 601)
    credit.spend(1, 900)
    assert credit.admits(0, 0, 100)
    assert not credit.admits(0, 0, 101)
    credit.restore(1, 900)
    assert credit.admits(0, 0, 5000)


def test_window_of_no_bytes_is_a_message_at_a_time() -> None:
    credit = Credit(0, 0)
    assert credit.admits(0, 0, 10)
    assert not credit.admits(1, 10, 1)
    credit.spend(1, 10)
    assert not credit.admits(0, 0, 1)


def test_window_describes_unacknowledged_deliveries() -> None:
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


def test_grant_replaces_the_credit_and_counts_unseen_deliveries() -> None:
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


MS = 0.001


@pytest.mark.parametrize(
    ("trip_s", "service_s", "workers"),
    [
        (1 * MS, 50 * MS, 1),
        (1 * MS, 1 * MS, 1),
        (50 * MS, 1 * MS, 1),
        (100 * MS, 0.1 * MS, 1),
        (10 * MS, 10 * MS, 8),
        (10 * MS, 100 * MS, 50),
        (0.1 * MS, 5.0, 1),
    ],
)
def test_window_is_a_quarter_more_than_rate_times_time(trip_s: float, service_s: float, workers: int) -> None:
    window = AdaptiveWindow(1, UNLIMITED)
    consumer = SimulatedConsumer(window, trip_s, service_s, workers)
    consumer.run(10_000)
    del consumer.windows[:]
    rate = consumer.run(20_000)
    needed = workers * (trip_s + service_s) / service_s
    assert needed <= sorted(consumer.windows)[len(consumer.windows) // 2] <= 1.3 * GAIN * needed + 1
    assert rate >= 0.93 * workers / service_s, "it is as busy as with an unbounded window"


@pytest.fixture
def window() -> AdaptiveWindow:
    return AdaptiveWindow(1, UNLIMITED)


@pytest.mark.parametrize("seed", range(3))
def test_uneven_service_times_keep_the_consumer_busy(seed: int, window: AdaptiveWindow) -> None:
    consumer = SimulatedConsumer(window, 20 * MS, 5 * MS)
    consumer.service_s = uneven(5 * MS, seed)
    consumer.run(5_000)
    del consumer.windows[:]
    rate = consumer.run(20_000)
    assert rate >= 0.9 / (5 * MS)
    assert max(consumer.windows) <= 10 * 5


def test_window_follows_a_service_time_that_changes(window: AdaptiveWindow) -> None:
    consumer = SimulatedConsumer(window, 10 * MS, 1 * MS)
    consumer.run(5_000)
    assert window.window >= 11
    consumer.service_s = lambda: 1.0
    consumer.run(200)
    assert window.window <= 3
    consumer.service_s = lambda: 1 * MS
    consumer.run(2_000)
    assert window.window >= 11


def test_bounds_of_an_adaptive_window_hold_for_any_measurement() -> None:
    fast = SimulatedConsumer(AdaptiveWindow(5, 20), 100 * MS, 0.1 * MS)
    fast.run(5_000)
    slow = SimulatedConsumer(AdaptiveWindow(5, 20), 0.1 * MS, 1.0)
    slow.run(500)
    assert (max(fast.windows), min(fast.windows + slow.windows), slow.windows[-1]) == (20, 5, 5)


@pytest.mark.parametrize("batch", [2, 10, 100])
def test_client_that_settles_many_at_once_is_met(batch: int, window: AdaptiveWindow) -> None:
    consumer = SimulatedConsumer(window, 1 * MS, 1 * MS, 1, batch)
    consumer.run(batch)
    assert window.batch == batch, "it was doubled until the client had so many"
    consumer.run(20_000)
    del consumer.windows[:]
    assert consumer.run(10_000) >= 0.9 * 1000
    assert batch <= min(consumer.windows) <= max(consumer.windows) <= 2.5 * batch + 2


def test_silent_client_gets_about_a_message_a_second(window: AdaptiveWindow) -> None:
    window.on_delivered(0, 0.0)
    now, found = 0.0, []
    while window.window < 64:
        now += window.stall_s()
        window.on_stalled()
        found.append((now, int(window.window)))
    assert found == [(1.0, 2), (3.0, 4), (7.0, 8), (15.0, 16), (31.0, 32), (63.0, 64)]
    window.on_settled(1, 64, 64.0)
    assert window.window == 1, "one settlement: it was not waiting for more"
    assert window.stall_s() == 2 * 64.0


def test_rounds_without_enough_messages_change_nothing(window: AdaptiveWindow) -> None:
    SimulatedConsumer(window, 50 * MS, 1 * MS).run(3_000)
    before = (window.window, window.rate)
    now = 1000.0
    for _ in range(10 * ROUND):
        window.on_delivered(0, now)
        window.on_settled(1, 1, now + 51 * MS)
        now += 1.0
    assert (window.window, window.rate) == before


def test_waiting_time_of_deliveries_is_not_counted_as_processing_time() -> None:
    window = AdaptiveWindow(100, UNLIMITED)
    consumer = SimulatedConsumer(window, 1 * MS, 1 * MS)
    consumer.run(10_000)
    assert window.window <= 125, "a time below the lower bound cannot be measured"
    window.least = 1
    consumer.run(100 * CYCLE * 10)
    assert window.window <= 4


def test_settlements_at_the_same_time_do_not_divide_by_zero(window: AdaptiveWindow) -> None:
    for _ in range(1000):
        window.on_delivered(0, 5.0)
        window.on_settled(1, 1, 5.0)
    assert window.window >= 1
