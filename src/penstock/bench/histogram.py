"""Histogram of times with buckets as in HdrHistogram: linear within a power of two, less than 0.8 % wide.

The package hdrhistogram is an extension in C with a serialization that nothing here reads. A bench of a broker needs
counting, merging and percentiles, so the installed package does without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Final

BITS: Final = 7
"""Each power of two has 2 ** BITS buckets."""


class Histogram:
    """Counts of values by bucket; values are whole numbers from 0, here nanoseconds. At most 7,424 buckets exist."""

    def __init__(self, counts: Iterable[tuple[int, int]] = ()) -> None:
        self.counts: dict[int, int] = dict(counts)
        """Counts by the index of their bucket."""

    def add(self, value: int, count: int = 1) -> None:
        """Count a value; one below 0 counts as 0, one above 2 ** 64 as that."""
        index = bucket_of(value)
        self.counts[index] = self.counts.get(index, 0) + count

    def merge(self, other: Histogram) -> None:
        """Add all counts of another one."""
        for index, count in other.counts.items():
            self.counts[index] = self.counts.get(index, 0) + count

    @property
    def total(self) -> int:
        """Return the number of values."""
        return sum(self.counts.values())

    def percentile(self, share: float) -> int | None:
        """Return the highest value of the bucket at a share from 0 to 1; None without values.

        At least this share of the values is at or below it, as in HdrHistogram's `getValueAtPercentile`.
        """
        wanted = max(1, ceil(self.total * share))
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= wanted:
                return highest_of(index)
        return None

    def milliseconds(self, share: float) -> float | None:
        """Return `percentile` in milliseconds, to the microsecond."""
        found = self.percentile(share)
        return None if found is None else round(found / 1e6, 3)


def bucket_of(value: int) -> int:
    """Return the index of the bucket of a value."""
    value = min(max(value, 0), 1 << 64)
    shift = max(0, value.bit_length() - BITS - 1)
    return (shift << BITS) + (value >> shift)


def highest_of(index: int) -> int:
    """Return the highest value of a bucket."""
    shift = max(0, (index >> BITS) - 1)
    return ((index - (shift << BITS) + 1) << shift) - 1


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """Return the sum of histograms."""
    found = Histogram()
    for each in histograms:
        found.merge(each)
    return found
