"""Durations by bucket: each in the bucket of its bound, all of them in the last, and their sum."""

from __future__ import annotations

import pytest

from penstock.flow.gate_stats import BOUNDS_S, LEAST_S, Histogram


@pytest.mark.parametrize(
    ("seconds", "bound"), [(0.0, 0), (LEAST_S, 0), (0.00011, 1), (0.05, 8), (10.0, 15), (11.0, 16)]
)
def test_duration_counts_up_to_its_bound(seconds: float, bound: int) -> None:
    found = Histogram()
    found.count(seconds)
    assert found.cumulative() == [0] * bound + [1] * (len(BOUNDS_S) + 1 - bound)
    assert found.sum_s == seconds


def test_clock_that_was_set_back_takes_nothing_from_the_sum() -> None:
    found = Histogram()
    found.count(-5.0)
    assert (found.cumulative()[-1], found.sum_s) == (1, 0.0)
