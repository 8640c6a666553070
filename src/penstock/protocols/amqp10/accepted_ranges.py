"""Accepted deliveries of the peer: those of one turn become few dispositions, whatever their links (section 2.7.6)."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.wire.amqp10.disposition import ACCEPTED_STATE, write_disposition

HALF: Final = 0x7FFFFFFF
"""Delivery-ids of one turn that lie further apart have begun again at 0."""


class AcceptedRanges:
    """Deliveries of one session that are accepted and settled, until they are written at the end of the turn."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, first: i64, last: i64) -> bool:
        """Add a range; returns whether it is the first one of the turn."""
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
