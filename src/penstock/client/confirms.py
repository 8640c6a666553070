"""Publisher confirms of the client: the set of messages without an answer.

The broker numbers the messages of a channel 1, 2, 3 ... from confirm.select on. It answers each of them, alone or with
all before it (`multiple`), in any order: later confirms overtake a withheld one. The state is the lowest unanswered
number and the answered numbers above it, at most as many as the window.
"""

from __future__ import annotations


class Confirms:
    """Unanswered messages of one channel."""

    __slots__ = ("_ahead", "_lowest", "_nacked", "acked", "nacked_count", "next")

    def __init__(self) -> None:
        self.next = 1
        """Number of the next message."""
        self.acked = 0
        self.nacked_count = 0
        self._lowest = 1
        self._ahead: set[int] = set()
        self._nacked: list[int] = []

    @property
    def outstanding(self) -> int:
        """Number of messages without an answer."""
        return self.next - self._lowest - len(self._ahead)

    def published(self, count: int) -> None:
        """Count messages as published."""
        self.next += count

    def settle(self, number: int, multiple: bool, positive: bool) -> None:
        """Record an answer for `number`, with `multiple` for all up to it; 0 then means all (section 1.8.3.13).

        An answer for an unknown or answered number changes nothing.
        """
        if multiple:
            top = self.next - 1 if number == 0 else min(number, self.next - 1)
            fresh = [each for each in range(self._lowest, top + 1) if each not in self._ahead]
            self._ahead.difference_update(range(self._lowest, top + 1))
            self._lowest = max(self._lowest, top + 1)
        elif self._lowest <= number < self.next and number not in self._ahead:
            fresh = [number]
            self._ahead.add(number)
        else:
            return
        while self._lowest in self._ahead:
            self._ahead.remove(self._lowest)
            self._lowest += 1
        if positive:
            self.acked += len(fresh)
        else:
            self.nacked_count += len(fresh)
            self._nacked += fresh

    def take_nacked(self) -> list[int]:
        """Take the numbers that the broker refused since the last call; the caller may publish them again."""
        nacked, self._nacked = self._nacked, []
        return nacked
