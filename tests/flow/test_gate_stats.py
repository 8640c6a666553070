"""Statistics of gates: blocked producers with their causes, times and counts; totals and durations.

Totals never fall, whatever ends. Each duration is in the bucket of its bound, and in the sum.
"""

from __future__ import annotations

import pytest

from penstock.flow.gate_stats import BOUNDS_S, DEPARTED_MAX, LEAST_S, FlowTotals, GateStats, Histogram, TimeIntegral
from tests.support.conversion_table import Pair
from tests.support.metrics import samples_of, scraped


def test_block_counts_once_until_the_end_and_the_times_add_up() -> None:
    block = GateStats().entry(1, "p")
    assert block.begin(10.0)
    assert not block.begin(11.0)
    assert block.blocked_s(12.0) == 2.0
    block.end(13.0)
    block.end(14.0)
    assert block.begin(20.0)
    assert (block.times, block.blocked_s(21.0)) == (2, 4.0)
    assert block.as_dict(21.0, None)["blocked_for_s"] == 1.0


def test_entry_is_made_once_for_each_producer() -> None:
    book = GateStats()
    assert book.entry(1, "p") is book.entry(1, "p")
    assert book.entry(1, "p") is not book.entry(2, "p")


def test_producer_that_goes_away_leaves_a_summary_among_the_last() -> None:
    book = GateStats()
    for number in range(DEPARTED_MAX + 5):
        book.entry(number, f"p{number}").begin(0.0)
        book.depart(number, 1.0)
    book.depart(4711, 1.0)
    assert not book.blocks
    assert book.departed[0].producer == "p5"
    assert len(book.departed) == DEPARTED_MAX
    assert all(block.since is None and block.total_s == 1.0 for block in book.departed)


def test_book_of_a_gate_adds_up_the_closed_time() -> None:
    book = GateStats()
    book.closed(1.0)
    assert book.as_dict(3.0)["closed_for_s"] == 2.0
    book.opened(4.0)
    book.opened(5.0)
    book.closed(10.0)
    plain = book.as_dict(11.0)
    assert (plain["crossings"], plain["closed_s"]) == (2, 4.0)


def test_sums_of_a_gate_include_closed_producers() -> None:
    book = GateStats()
    assert (book.sums(0.0).blocked, book.sums(0.0).blocked_s) == (0, 0.0)
    for number in range(DEPARTED_MAX + 5):
        block = book.entry(number, f"p{number}")
        block.begin(0.0)
        block.held, block.withheld, block.refused, block.late = 1, 2, 3, 4
        book.depart(number, 1.0)
    book.entry(4711, "present").begin(2.0)
    sums = book.sums(3.0)
    assert (sums.blocked, sums.blocked_s) == (1, DEPARTED_MAX + 6.0)
    assert (sums.held, sums.withheld, sums.refused, sums.late) == tuple(n * (DEPARTED_MAX + 5) for n in (1, 2, 3, 4))


def test_channels_and_queues_that_came_and_went_are_counted() -> None:
    pair = Pair()
    pair.amqp091.declare("q")
    driver = pair.amqp091.driver
    churn = driver.broker.vhosts["/"].churn
    assert (churn.queues_declared, churn.queues_created, churn.channels_opened) == (3, 2, 2)
    driver.broker.delete_queue(driver.broker.vhosts["/"].queues["d"])
    driver.disconnect(pair.amqp091.connection)
    found = samples_of(scraped(driver))
    for name, value in (
        ("rabbitmq_queues_declared_total", 3),
        ("rabbitmq_queues_created_total", 2),
        ("rabbitmq_queues_deleted_total", 1),
        ("rabbitmq_channels_opened_total", 2),
        ("rabbitmq_channels_closed_total", 1),
        ("rabbitmq_global_publishers", 0),
    ):
        assert found[(name,)] == value, name


def test_seconds_of_all_that_lasts_add_up() -> None:
    found = TimeIntegral()
    found.change(1, 10.0)
    found.change(2, 12.0)
    assert (found.present, found.seconds(13.0)) == (3, 5.0)
    found.change(-3, 14.0)
    assert (found.present, found.seconds(100.0)) == (0, 8.0)


def test_transitions_and_blocks_are_counted_by_kind() -> None:
    totals = FlowTotals()
    totals.count_transition("queue", True, 1.0)
    totals.count_block("queue", True, 1.0)
    totals.count_block("queue", True, 2.0)
    totals.count_transition("queue", False, 4.0)
    totals.count_block("queue", False, 4.0)
    found = totals.of("queue")
    assert (found.crossings, found.closed.present, found.closed.seconds(9.0)) == (1, 0, 3.0)
    assert (found.blocks, found.blocked.present, found.blocked.seconds(4.0)) == (2, 1, 5.0)
    assert totals.of("disk").crossings == 0


@pytest.mark.parametrize(
    ("seconds", "bound"), [(0.0, 0), (LEAST_S, 0), (0.00011, 1), (0.05, 8), (10.0, 15), (11.0, 16)]
)
def test_duration_counts_up_to_the_bound(seconds: float, bound: int) -> None:
    found = Histogram()
    found.count(seconds)
    assert found.cumulative() == [0] * bound + [1] * (len(BOUNDS_S) + 1 - bound)
    assert found.sum_s == seconds


def test_clock_that_was_set_back_subtracts_nothing_from_the_sum() -> None:
    found = Histogram()
    found.count(-5.0)
    assert (found.cumulative()[-1], found.sum_s) == (1, 0.0)
