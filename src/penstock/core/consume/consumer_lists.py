"""Consumers in linked lists: joining, leaving and going on to the next take the same time however many there are.

A consumer stands in at most one list at a time: that of those whose turn it may be (`RoundRobin`), or of those who wait
for the same thing (`WaitList`), such as credit of their channel or room in the output of their connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.consume.consumer import Consumer

GONE: Final = 0
"""It is no consumer of its queue: not yet, or not any more."""
READY: Final = 1
"""It stands in the rotation of its queue."""
STANDBY: Final = 2
"""It stands by while another one is the single active consumer."""
ALONE: Final = 3
"""It waits for its own credit, or for its own rate."""
LISTED: Final = 4
"""It waits in a list of its session, or of its connection."""
UNFIT: Final = 5
"""The next message of its queue does not fit into its window in bytes, or its session's."""


class ConsumerList:
    """A ring of consumers, with a first one."""

    def __init__(self) -> None:
        self.first: Consumer | None = None
        self.size: i64 = 0

    def insert(self, consumer: Consumer, place: Consumer | None) -> None:
        """Put a consumer right before another one; before the first is at the end."""
        consumer.list = self
        self.size += 1
        if place is None:
            self.first = consumer
            consumer.before = consumer
            consumer.after = consumer
            return
        before = place.before
        assert before is not None
        before.after = consumer
        consumer.before = before
        consumer.after = place
        place.before = consumer

    def append(self, consumer: Consumer) -> None:
        """Put a consumer at the end."""
        self.insert(consumer, self.first)

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer out."""
        before, after = consumer.before, consumer.after
        assert before is not None and after is not None
        before.after = after
        after.before = before
        if self.first is consumer:
            self.first = None if after is consumer else after
        consumer.before = None
        consumer.after = None
        consumer.list = None
        self.size -= 1


class RoundRobin(ConsumerList):
    """Consumers of the same priority that may have room, and whose turn it is."""

    def __init__(self, priority: i64) -> None:
        super().__init__()
        self.priority: i64 = priority
        self.next: Consumer | None = None
        self.share: i64 = 0
        """How many messages each gets in this round, which ends where the next one is the first."""

    def join(self, consumer: Consumer) -> None:
        """Put a consumer right before the next one: the last in turn (as in RabbitMQ)."""
        self.insert(consumer, self.next)
        if self.next is None:
            self.next = consumer

    def remove(self, consumer: Consumer) -> None:
        """See `ConsumerList.remove`; whose turn it is among the others, it stays."""
        if self.next is consumer:
            self.next = None if consumer.after is consumer else consumer.after
        super().remove(consumer)


class WaitList(ConsumerList):
    """Consumers that wait for the same thing, first in, first out.

    They are woken one at a time: one that takes all there is leaves the others where they stand, so each has its share.
    While anybody waits, a consumer that has not been woken stands behind.
    """

    def __init__(self) -> None:
        super().__init__()
        self.noted: bool = False
        """The broker knows that some of it may go on."""

    def is_open(self) -> bool:
        """Return whether what they wait for is there."""
        raise NotImplementedError

    def schedule_wake(self) -> None:
        """What they wait for may be there: have the broker wake some, after those who need not wait for it."""
        first = self.first
        if first is not None and not self.noted:
            broker: Broker | None = first.broker
            assert broker is not None
            self.noted = True
            broker.waiting.append(self)
