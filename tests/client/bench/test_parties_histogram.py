"""Histogram of times: buckets, percentiles and sums."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.bench.parties import Histogram, bucket_of, highest_of, merged


@given(st.integers(0, 1 << 64))
def test_bucket_of_a_value_is_less_than_a_percent_wide(value: int) -> None:
    highest = highest_of(bucket_of(value))
    assert value <= highest <= value * 1.008
    assert bucket_of(highest) == bucket_of(value)


def test_buckets_are_in_the_order_of_the_values() -> None:
    values = [*range(2000), *(1 << power for power in range(11, 65))]
    assert [bucket_of(value) for value in values] == sorted(bucket_of(value) for value in values)
    assert bucket_of(-5) == bucket_of(0)
    assert bucket_of(1 << 70) == bucket_of(1 << 64)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50), st.floats(0, 1))
def test_percentile_has_the_share_of_the_values_at_or_below(values: list[int], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    found = histogram.percentile(share)
    assert found is not None
    assert sum(value <= found for value in values) >= share * len(values)


def test_percentile_without_values_is_unknown() -> None:
    assert Histogram().percentile(0.5) is None
    assert Histogram().milliseconds(0.5) is None


def test_sum_of_histograms_has_all_counts() -> None:
    one, other = Histogram(), Histogram()
    one.add(1_000_000, 3)
    other.add(1_000_000)
    other.add(5)
    both = merged((one, other))
    assert both.total == 5
    assert both.counts[bucket_of(1_000_000)] == 4
    assert Histogram(both.counts.items()).milliseconds(1.0) == both.milliseconds(1.0)
