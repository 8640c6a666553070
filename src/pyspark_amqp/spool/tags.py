"""Delivery tags of a channel that the broker still waits for, and the numbers of their messages."""

from collections import deque


class Tags:
    """Tags in the order in which they came; a tag ends with its channel."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, float]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, tag: int, number: int, now: float) -> None:
        """Add a delivery at a monotonic second; a message that came again has the number that it had."""
        self._waiting.append((tag, number, now))

    def take(self, upto: int) -> tuple[int, list[int]]:
        """Return a tag to acknowledge with all before it, and their numbers; 0 if there is none.

        Tags behind one with a number beyond `upto` wait for it, for an acknowledgement of many has no holes.
        """
        tag, numbers = 0, []
        while self._waiting and self._waiting[0][1] <= upto:
            tag, number, _ = self._waiting.popleft()
            numbers.append(number)
        return tag, numbers

    def age(self, now: float) -> float:
        """Return the seconds since the oldest delivery that waits."""
        return now - self._waiting[0][2] if self._waiting else 0.0

    def clear(self) -> None:
        """Forget all: their channel is closed."""
        self._waiting.clear()
