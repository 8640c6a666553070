"""Delivery-ids of the messages of one incoming link, by the numbers that its producer gives them."""

from __future__ import annotations

from collections import deque

from mypy_extensions import i64


class _Run:
    """Consecutive numbers whose delivery-ids are consecutive as well."""

    __slots__ = ("first", "offset")

    def __init__(self, first: i64, offset: i64) -> None:
        self.first: i64 = first
        self.offset: i64 = offset
        """Delivery-id less number, modulo 2^32."""


class DeliveryIds:
    """Runs of numbers with consecutive delivery-ids. A link that is alone on its session has one."""

    __slots__ = ("_runs", "_offset")

    def __init__(self) -> None:
        self._runs: deque[_Run] = deque()
        self._offset: i64 = -1

    def add(self, number: i64, delivery_id: i64) -> None:
        """Record the delivery-id of the next number."""
        offset = (delivery_id - number) & 0xFFFFFFFF
        if offset != self._offset:
            self._offset = offset
            self._runs.append(_Run(number, offset))

    def ranges(self, first: i64, last: i64) -> list[tuple[int, int]]:
        """Return the delivery-ids of the numbers first..last as ranges, in order."""
        found: list[tuple[int, int]] = []
        runs = self._runs
        count: i64 = len(runs)
        index: i64 = 0
        while index < count:
            run = runs[index]
            end = runs[index + 1].first - 1 if index + 1 < count else last
            begin = first if first > run.first else run.first
            if end > last:
                end = last
            if begin <= end:
                found.append((int((begin + run.offset) & 0xFFFFFFFF), int((end + run.offset) & 0xFFFFFFFF)))
            if run.first > last:
                break
            index += 1
        return found

    def forget(self, upto: i64) -> None:
        """Drop the runs of which all numbers are at most `upto`: their outcomes are sent."""
        runs = self._runs
        while len(runs) > 1 and runs[1].first <= upto + 1:
            runs.popleft()
