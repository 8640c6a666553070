"""Counting publisher confirms: which messages are still without an answer.

The broker numbers the messages of a channel 1, 2, 3 ... from confirm.select on, and answers each, alone or with all
before it (`multiple`), in any order: a withheld confirm is overtaken by those after it. So the state is the lowest
number without an answer and the answered ones above it, at most as many as the window is wide.
"""

from __future__ import annotations


class Confirms:
    """The messages of one channel that were published and not answered yet."""

    __slots__ = ("_ahead", "_lowest", "_nacked", "acked", "nacked_count", "next")

    def __init__(self) -> None:
        self.next = 1
        """The number that the next message gets."""
        self.acked = 0
        self.nacked_count = 0
        self._lowest = 1
        self._ahead: set[int] = set()
        self._nacked: list[int] = []

    @property
    def outstanding(self) -> int:
        """How many messages have no answer yet."""
        return self.next - self._lowest - len(self._ahead)

    def published(self, count: int) -> None:
        """So many more messages are on their way."""
        self.next += count

    def settle(self, number: int, multiple: bool, positive: bool) -> None:
        """The broker answered `number`, with `multiple` all up to it; 0 with `multiple` means all (section 1.8.3.13).

        An answer for what is answered already, or was never published, changes nothing.
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
        """The numbers that the broker refused since the last call; they are the caller's to publish again."""
        nacked, self._nacked = self._nacked, []
        return nacked
