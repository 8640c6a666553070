"""Reservation of queue room for the credit granted to a sender.

`depth + reserved <= capacity`, always: granted credit finds room, whatever other senders do. Grants come from free
room, a part of it at a time, so that several senders share it. A closed gate, or one with waiters, grants nothing. For
protocols with sender credit; AMQP 0-9-1 has none.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.queue.queue import Queue

SHARE: Final = 4
"""A grant takes at most this part (a quarter) of the free room: the less there is, the smaller the grants."""


class Reservation:
    """Credit of one sender for one queue."""

    def __init__(self, queue: Queue, charge: i64) -> None:
        self.queue = queue
        self.charge: i64 = charge
        """Bytes reserved for each message: the largest charge that the sender may use."""
        self.messages: i64 = 0
        """Messages granted and not used."""

    def grant(self, wanted: i64, now: float) -> i64:
        """Reserve room for up to `wanted` messages; returns the number granted, 0 if none has room."""
        queue = self.queue
        if queue.deleted or not queue.gate.open or queue.gate.waiters or wanted <= 0:
            return 0
        capacity = queue.thresholds.capacity
        free_messages = capacity.messages - queue.messages - queue.reserved_messages
        free = (capacity.bytes - queue.bytes - queue.reserved_bytes) // self.charge
        if free_messages < free:
            free = free_messages
        if free <= 0:
            return 0
        share = (free + SHARE - 1) // SHARE
        granted = wanted if wanted < share else share
        self.messages += granted
        queue.reserve(granted, granted * self.charge, now)
        return granted

    def use(self, now: float) -> None:
        """Use one message of credit: its room is free, and the caller enqueues the message at once."""
        assert self.messages > 0, "credit was used that was never granted"
        self.messages -= 1
        self.queue.reserve(-1, -self.charge, now)

    def give_back(self, now: float) -> None:
        """Release the unused room."""
        if self.messages:
            self.queue.reserve(-self.messages, -self.messages * self.charge, now)
            self.messages = 0
