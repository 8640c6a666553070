"""Deliveries of a connection that the broker still waits for, and the numbers of their messages."""

from collections import deque

from penstock.client.engine.messages import Delivery


class Tags:
    """Deliveries in the order in which they came; they end with their connection."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Delivery, int, float]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, delivery: Delivery, number: int, now: float) -> None:
        """Add a delivery at a monotonic second; a message that came again has the number that it had."""
        self._waiting.append((delivery, number, now))

    def take(self, upto: int) -> tuple[list[Delivery], list[int]]:
        """Return deliveries to acknowledge, and their numbers.

        Those behind one with a number beyond `upto` wait for it.
        """
        found, numbers = [], []
        while self._waiting and self._waiting[0][1] <= upto:
            delivery, number, _ = self._waiting.popleft()
            found.append(delivery)
            numbers.append(number)
        return found, numbers

    def age(self, now: float) -> float:
        """Return the seconds since the oldest delivery that waits."""
        return now - self._waiting[0][2] if self._waiting else 0.0

    def clear(self) -> None:
        """Forget all: their connection is closed."""
        self._waiting.clear()
