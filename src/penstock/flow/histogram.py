"""Histogram of durations with fixed bounds: counted where they are measured, read by the metrics."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

BOUNDS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of the buckets, in seconds: from a short turn to a store that does not answer."""
LEAST_S: Final = 0.0001
"""The first of them, where most durations are: one comparison for each."""


class Histogram:
    """Numbers of durations by bucket, and their sum. It never forgets; its size is fixed."""

    __slots__ = ("_least", "_more", "sum_s")

    def __init__(self) -> None:
        self._least: i64 = 0
        """Durations up to `LEAST_S`."""
        self._more: list[int] = [0] * len(BOUNDS_S)
        """Those of the buckets after the first; the last one has no bound."""
        self.sum_s: float = 0.0
        """Sum of all durations in seconds."""

    def count(self, seconds: float) -> None:
        """Count a duration in seconds; a negative one, of a clock that was set, counts as 0."""
        if seconds <= LEAST_S:
            self._least += 1
            if seconds > 0.0:
                self.sum_s += seconds
            return
        self.sum_s += seconds
        index = 1
        while index < len(BOUNDS_S) and seconds > BOUNDS_S[index]:
            index += 1
        self._more[index - 1] += 1

    def cumulative(self) -> list[int]:
        """Return the number of durations up to each bound, and of all: one entry more than `BOUNDS_S`."""
        sums = [int(self._least)]
        for each in self._more:
            sums.append(sums[-1] + each)
        return sums
