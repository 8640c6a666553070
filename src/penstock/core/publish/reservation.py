"""Room in a queue that is set aside for credit: what was granted to a sender and has not come yet.

`depth + reserved <= capacity`, always: who spends credit that it was granted finds room, whatever others did meanwhile.
Grants come from free room only, a part of it at a time, so that several senders share what is left; a closed gate, or
one at which others wait, grants nothing. For protocols with credit; AMQP 0-9-1 has none for publishers.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.queue.queue import Queue

SHARE: Final = 4
"""A grant takes at most this part of the free room: the less there is, the smaller the grants."""


class Reservation:
    """What one sender has been granted for one queue."""

    def __init__(self, queue: Queue, charge: i64) -> None:
        self.queue = queue
        self.charge: i64 = charge
        """Bytes that are set aside for each message: the largest charge that the sender may use."""
        self.messages: i64 = 0
        """Granted and not used up."""

    def grant(self, wanted: i64, now: float) -> i64:
        """Set room aside for up to so many messages; returns for how many. 0: ask again when the depth has fallen."""
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
        """A message came on granted credit: its room is free for it, and the caller puts it in right away."""
        assert self.messages > 0, "credit was used that was never granted"
        self.messages -= 1
        self.queue.reserve(-1, -self.charge, now)

    def give_back(self, now: float) -> None:
        """The sender went away or gave its credit back: the room is everybody's again."""
        if self.messages:
            self.queue.reserve(-self.messages, -self.messages * self.charge, now)
            self.messages = 0
