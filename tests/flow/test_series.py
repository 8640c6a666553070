"""Series of counters and levels in slots of five seconds, of minutes and of five minutes.

Tallies of counts by RabbitMQ's keys.
"""

from __future__ import annotations

import pytest

from penstock.flow.series import (
    FINE,
    MINUTE,
    MINUTES,
    PERIOD,
    PERIODS,
    PERIODS_OF_5,
    SLOT_S,
    SLOTS,
    TALLY_KEYS,
    SampleTimes,
    Series,
    Tally,
)

START = 1000.0


def times_at(slot: int) -> SampleTimes:
    times = SampleTimes(START)
    times.begin(START + slot * SLOT_S)
    return times


def run(series: Series, times: SampleTimes, values: dict[int, list[int]], until: int) -> None:
    """Make the passes up to a slot, with the values that change."""
    present = [0] * len(series.totals)
    for slot in range(int(times.slot), until + 1):
        times.begin(START + slot * SLOT_S)
        present = values.get(slot, present)
        series.record(list(present))


@pytest.fixture
def times() -> SampleTimes:
    return times_at(1)


def test_rate_is_the_increase_by_the_true_interval(times: SampleTimes) -> None:
    series = Series(times, 1, 1, True, True)
    series.record([10, 3])
    assert series.rate(0) == 10 / 5
    times.begin(START + 12.5)
    series.record([25, 0])
    assert (series.rate(0), series.rate(1)) == (15 / 7.5, -3 / 7.5)


def test_rate_of_a_pass_without_a_change_is_zero(times: SampleTimes) -> None:
    series = Series(times, 1, 0, True, False)
    assert series.record([10])
    times.begin(START + 2 * SLOT_S)
    assert not series.record([10])
    assert series.rate(0) == 0.0


def test_slots_without_a_change_have_no_increase_and_the_last_level(times: SampleTimes) -> None:
    series = Series(times, 1, 1, True, True)
    run(series, times, {1: [5, 7], 4: [6, 2]}, 6)
    assert series.values(0, FINE) == [0, 5, 0, 0, 1, 0, 0]
    assert series.values(1, FINE) == [0, 7, 7, 7, 2, 2, 2]


def test_slots_wrap_after_five_minutes(times: SampleTimes) -> None:
    series = Series(times, 1, 0, True, False)
    run(series, times, {slot: [slot] for slot in range(1, 200)}, 199)
    assert series.values(0, FINE) == [1] * SLOTS
    run(series, times, {199: [199]}, 199 + 2 * SLOTS)
    assert series.values(0, FINE) == [0] * SLOTS


def test_longer_entries_have_the_sum_of_a_counter_and_the_highest_level(times: SampleTimes) -> None:
    series = Series(times, 1, 1, True, True)
    until = 4 * PERIOD - 1
    run(series, times, {slot: [2 * slot, slot % MINUTE] for slot in range(1, until + 1)}, until)
    assert series.values(0, MINUTES)[-3:] == [2 * MINUTE] * 3
    assert series.values(1, MINUTES)[-3:] == [MINUTE - 1] * 3
    assert series.values(0, PERIODS_OF_5) == [2 * (PERIOD - 1), 2 * PERIOD, 2 * PERIOD, 2 * PERIOD]


def test_longer_entries_are_read_from_slots_before_the_first_entry(times: SampleTimes) -> None:
    series = Series(times, 1, 1, True, True)
    run(series, times, {2: [7, 9], 14: [8, 1]}, 20)
    assert (series.values(0, MINUTES), series.values(1, MINUTES)) == ([7, 1], [9, 9])


def test_day_of_counts_is_stored_exactly(times: SampleTimes) -> None:
    series = Series(times, 1, 0, True, True)
    until = PERIOD * PERIODS + 5 * PERIOD
    run(series, times, {slot: [slot] for slot in range(1, until)}, until - 1)
    assert series.values(0, PERIODS_OF_5) == [PERIOD] * PERIODS


def test_series_without_slots_has_rates_only(times: SampleTimes) -> None:
    series = Series(times, 1, 1, False, True)
    series.record([10, 4])
    assert series.rate(0) == 2.0
    assert (series.values(0, FINE), series.values(1, FINE)) == ([0, 0], [4, 4])


def test_forgotten_slots_are_empty_and_counting_goes_on(times: SampleTimes) -> None:
    series = Series(times, 1, 0, True, True)
    run(series, times, {1: [5]}, 3)
    series.forget()
    assert series.values(0, FINE) == [0, 0, 0, 0]
    times.begin(START + 4 * SLOT_S)
    series.record([6])
    assert series.values(0, FINE) == [0, 0, 0, 0, 1]


def test_pass_that_comes_late_leaves_slots_out(times: SampleTimes) -> None:
    series = Series(times, 1, 0, True, True)
    series.record([1])
    times.begin(START + 7 * SLOT_S + 1)
    series.record([61])
    assert series.values(0, FINE) == [0, 1, 0, 0, 0, 0, 0, 60]
    assert series.rate(0) == 60 / (6 * SLOT_S + 1)


def test_times_begin_with_the_broker_at_any_clock() -> None:
    times = SampleTimes(0.0)
    times.start(START)
    times.begin(START + SLOT_S)
    series = Series(times, 1, 0, True, True)
    series.record([10])
    assert (series.values(0, FINE), series.rate(0)) == ([0, 10], 2.0)


def counted(first: int) -> Tally:
    tally = Tally()
    for at, key in enumerate(TALLY_KEYS):
        setattr(tally, key, first + at)
    return tally


def test_tally_has_the_values_in_the_order_of_the_keys() -> None:
    assert counted(1).values() == list(range(1, len(TALLY_KEYS) + 1))


def test_tally_adds_and_subtracts_every_key() -> None:
    tally = counted(10)
    tally.add(counted(1))
    assert tally.values() == [11 + 2 * at for at in range(len(TALLY_KEYS))]
    assert tally.less(counted(1)).values() == counted(10).values()
