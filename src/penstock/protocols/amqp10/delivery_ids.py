"""Delivery-ids: of an incoming link by the numbers of its producer, and of a session by its own numbers.

Accepted deliveries of one turn become few dispositions, of any links (section 2.7.6).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.wire.amqp10.transfer import ACCEPTED_STATE, write_disposition
from penstock.wire.amqp10.values import serial_distance

HALF: Final = 0x7FFFFFFF
"""Delivery-ids of one turn that are further apart have wrapped around to 0."""


class AcceptedRanges:
    """Deliveries of one session that are accepted and settled, until they are written at the end of the turn."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, first: i64, last: i64) -> bool:
        """Add a range; return whether it is the first range of the turn."""
        self._ranges.append((int(first), int(last)))
        return len(self._ranges) == 1

    def write(self, out: BytesWriter, channel: i64) -> None:
        """Write and forget the deliveries, neighbours as one range."""
        ranges = self._ranges
        if not ranges:
            return
        self._ranges = []
        if len(ranges) > 1:
            ranges.sort()
            if ranges[len(ranges) - 1][0] - ranges[0][0] > HALF:
                ranges = [each for each in ranges if each[0] > HALF] + [each for each in ranges if each[0] <= HALF]
        first, last = ranges[0]
        for begin, end in ranges[1:]:
            if begin != (last + 1) & 0xFFFFFFFF:
                write_disposition(out, channel, True, first, last, True, ACCEPTED_STATE)
                first = begin
            last = end
        write_disposition(out, channel, True, first, last, True, ACCEPTED_STATE)


TRIM_FROM: Final = 64
"""Unused runs after which the list of runs is trimmed, if they are half of the list."""


class DeliveryRange:
    """Consecutive delivery-ids, `first`..`last`; `second` is true if the sender settles first."""

    __slots__ = ("first", "last", "second")

    def __init__(self, first: i64, last: i64, second: bool) -> None:
        self.first: i64 = first & 0xFFFFFFFF
        self.last: i64 = last & 0xFFFFFFFF
        self.second = second


class _Run:
    """Consecutive numbers with consecutive delivery-ids and one receiver settle mode."""

    __slots__ = ("first", "offset", "second")

    def __init__(self, first: i64, offset: i64, second: bool) -> None:
        self.first: i64 = first
        self.offset: i64 = offset
        """Delivery-id less number, modulo 2^32."""
        self.second = second


class DeliveryIds:
    """Runs of numbers with consecutive delivery-ids. The only link of a session has one run."""

    __slots__ = ("_runs", "_front", "_offset", "_second")

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._front: i64 = 0
        """Index of the first run in use."""
        self._offset: i64 = -1
        self._second: bool = False

    def add(self, number: i64, delivery_id: i64, second: bool = False) -> None:
        """Record the delivery-id of the next number. `second`: the sender settles first (rcv-settle-mode)."""
        offset = (delivery_id - number) & 0xFFFFFFFF
        if offset != self._offset or second != self._second:
            self._offset = offset
            self._second = second
            self._runs.append(_Run(number, offset, second))

    def ranges(self, first: i64, last: i64) -> list[DeliveryRange]:
        """Return the delivery-ids of the numbers first..last as ranges, in order."""
        ranges: list[DeliveryRange] = []
        runs = self._runs
        count: i64 = len(runs)
        index = self._index(first)
        while index < count and runs[index].first <= last:
            run = runs[index]
            begin = first if first > run.first else run.first
            end = last
            if index + 1 < count and runs[index + 1].first <= last:
                end = runs[index + 1].first - 1
            ranges.append(DeliveryRange(begin + run.offset, end + run.offset, run.second))
            index += 1
        return ranges

    def forget(self, upto: i64) -> None:
        """Drop the runs whose numbers are all at most `upto`: their outcomes are sent."""
        runs = self._runs
        count: i64 = len(runs)
        front = self._front
        while front + 1 < count and runs[front + 1].first <= upto + 1:
            front += 1
        if front >= TRIM_FROM and front * 2 >= count:
            del runs[:front]
            front = 0
        self._front = front

    def _index(self, number: i64) -> i64:
        """Return the index of the last run that begins at a number or before it; at least the front."""
        runs = self._runs
        low = self._front
        high: i64 = len(runs)
        while low < high:
            middle = (low + high) >> 1
            if runs[middle].first <= number:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low > self._front else low


class _Gap:
    """Numbers that have no delivery-id, right before the number `first`."""

    __slots__ = ("first", "count")

    def __init__(self, first: i64, count: i64) -> None:
        self.first: i64 = first
        self.count: i64 = count


class SentIds:
    """Delivery-ids of the deliveries that a session sends, by the numbers of its ledger: 0 for number 1, and so on.

    A delivery that was dropped before its first frame has a number, and no delivery-id. Such a number is a gap.
    """

    __slots__ = ("next_number", "next_id", "_gaps")

    def __init__(self) -> None:
        self.next_number: i64 = 1
        """Number of the next delivery of which no frame is written."""
        self.next_id: i64 = 0
        self._gaps: list[_Gap] = []

    def skip_to(self, number: i64, settled: i64) -> None:
        """Leave a gap up to a number. All numbers before `settled` are settled: gaps before it are dropped."""
        gaps = self._gaps
        while gaps and gaps[0].first <= settled:
            gaps.pop(0)
        gaps.append(_Gap(number, number - self.next_number))
        self.next_number = number

    def advance(self, count: i64) -> None:
        """Count deliveries that are sent, with the next numbers and delivery-ids."""
        self.next_number += count
        self.next_id = (self.next_id + count) & 0xFFFFFFFF

    def is_future(self, delivery_id: i64) -> bool:
        """Return whether a delivery-id was not sent yet."""
        return serial_distance(delivery_id, self.next_id) <= 0

    def number_of(self, delivery_id: i64) -> i64:
        """Return the number of a delivery-id; for an id that was settled long ago, any number before the unsettled
        ones."""
        number = self.next_number - serial_distance(delivery_id, self.next_id)
        at = len(self._gaps) - 1
        while at >= 0 and number < self._gaps[at].first:
            number -= self._gaps[at].count
            at -= 1
        return number

    def id_of(self, number: i64) -> i64:
        """Return the delivery-id of an unsettled delivery that was sent."""
        back = self.next_number - number
        at = len(self._gaps) - 1
        while at >= 0 and number < self._gaps[at].first:
            back -= self._gaps[at].count
            at -= 1
        return (self.next_id - back) & 0xFFFFFFFF
