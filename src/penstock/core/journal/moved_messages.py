"""Messages of a journal group that were on the disk before, as messages of another queue or with another position.

A message moves if it leaves its queue and enters another one in one step: by a transfer, as a dead letter, or because a
delay is over. A crash before the group is written brings the message back to where it was. There no redelivery mark
says that it was delivered, so a delivery waits for the group.
"""

from __future__ import annotations

from collections.abc import Sequence

from mypy_extensions import i64


class MovedMessages:
    """Ascending ranges of indexes in one group."""

    __slots__ = ("_firsts", "_ends")

    def __init__(self) -> None:
        self._firsts: list[i64] = []
        self._ends: list[i64] = []
        """First index of each range, and the index after its last one."""

    def add(self, first: i64, end: i64) -> None:
        """Add a range that begins at or after the end of the last one."""
        ends = self._ends
        if ends and ends[len(ends) - 1] == first:
            ends[len(ends) - 1] = end
            return
        self._firsts.append(first)
        ends.append(end)

    def holds(self, index: i64) -> bool:
        """Return whether an index is in a range."""
        low: i64 = 0
        high: i64 = len(self._firsts)
        while low < high:
            middle = (low + high) // 2
            if self._ends[middle] <= index:
                low = middle + 1
            else:
                high = middle
        return low < len(self._firsts) and self._firsts[low] <= index

    def without_gaps(self, messages: Sequence[object | None]) -> MovedMessages:
        """Return the ranges as they are once the indexes without a message are used again."""
        others = MovedMessages()
        left: i64 = 0
        for index in range(len(messages)):
            if messages[index] is not None:
                if self.holds(index):
                    others.add(left, left + 1)
                left += 1
        return others
