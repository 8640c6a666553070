"""Counts of publishers and receivers that have ended are added up."""

from __future__ import annotations

import pytest

from penstock.client.engine.tally import Tally, added


@pytest.mark.parametrize(
    ("first", "second", "sums"), [([1, 2], [10, 20], [11, 22]), ([], [3, 4], [3, 4]), ([5], [], [5]), ([], [], [])]
)
def test_counts_are_added_by_position(first: list[int], second: list[int], sums: list[int]) -> None:
    assert added(first, second) == sums


def test_rows_of_counts_with_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        added([1, 2], [1])


def test_tally_has_the_sums_of_ended_publishers_and_receivers_apart() -> None:
    tally = Tally()
    tally.add_publisher([1, 2], 0.5)
    tally.add_publisher([3, 4], 0.25)
    tally.add_receiver([7])
    assert (tally.of_publishers, tally.waited, tally.of_receivers) == ([4, 6], 0.75, [7])
