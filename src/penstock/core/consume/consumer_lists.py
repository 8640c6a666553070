"""Linked lists of consumers, with constant time to join, to leave and to advance.

A consumer is in at most one list at a time: the rotation of its queue (`RoundRobin`), or a list of consumers that wait
for the same resource (`WaitList`), such as channel credit or room in the output of their connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from penstock.core.consume.consumer import Consumer
    from penstock.core.consume.context import ConsumeContext

GONE: Final = 0
"""Not subscribed: not yet, or no longer."""
READY: Final = 1
"""In the rotation of its queue."""
STANDBY: Final = 2
"""Standing by for the single active consumer."""
ALONE: Final = 3
"""Waiting for its own credit, or for its own rate."""
LISTED: Final = 4
"""Waiting in a list of its session, or of its connection."""
UNFIT: Final = 5
"""Waiting because the next message of its queue exceeds its byte window, or its session's."""
UNMATCHED: Final = 6
"""Waiting for new messages: its selector, or its browser, has seen all that are there."""


class ConsumerList:
    """A ring of consumers, with a first one."""

    def __init__(self) -> None:
        self.first: Consumer | None = None
        self.size: i64 = 0

    def insert(self, consumer: Consumer, successor: Consumer | None) -> None:
        """Insert a consumer right before another one; before the first is at the end."""
        consumer.list = self
        self.size += 1
        if successor is None:
            self.first = consumer
            consumer.before = consumer
            consumer.after = consumer
            return
        before = successor.before
        assert before is not None
        before.after = consumer
        consumer.before = before
        consumer.after = successor
        successor.before = consumer

    def append(self, consumer: Consumer) -> None:
        """Append a consumer."""
        self.insert(consumer, self.first)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
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


class Round:
    """One round of a ring of consumers: each gets the same share of the messages that were there at its start."""

    __slots__ = ("share",)

    def __init__(self) -> None:
        self.share: i64 = 0
        """Messages for each consumer; 0 before the first round."""

    def begin(self, available: i64, consumers: i64) -> None:
        """Begin a round: divide the messages, at least one for each."""
        self.share = available // consumers if available > consumers else 1


class RoundRobin(ConsumerList):
    """Consumers of the same priority that may have credit, in round-robin order.

    A round begins when it is the turn of the first consumer of the ring.
    """

    def __init__(self, priority: i64) -> None:
        super().__init__()
        self.priority: i64 = priority
        self.next: Consumer | None = None
        """The consumer whose turn it is."""
        self.round = Round()

    def next_share(self, available: i64) -> i64:
        """Return the share of the next consumer; the round begins if it is the first one's turn."""
        if self.next is self.first or self.round.share == 0:
            self.round.begin(available, self.size)
        return self.round.share

    def finish_turn(self) -> None:
        """Pass the turn to the following consumer."""
        assert self.next is not None
        self.next = self.next.after

    def join(self, consumer: Consumer) -> None:
        """Insert a consumer right before the next one: the last in turn (as in RabbitMQ)."""
        self.insert(consumer, self.next)
        if self.next is None:
            self.next = consumer

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; the order of the others does not change."""
        if self.next is consumer:
            self.next = None if consumer.after is consumer else consumer.after
        super().remove(consumer)


class WaitList(ConsumerList):
    """Consumers that wait for the same resource, first in, first out.

    They are woken one at a time: one that takes all of it leaves the others in the list, so each has its share. While
    any consumer waits, one that has not been woken joins at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wake_scheduled: bool = False
        """True if the broker will wake some of it."""

    def is_open(self) -> bool:
        """Return whether the resource is available."""
        raise NotImplementedError

    def schedule_wake(self) -> None:
        """Schedule a wake-up by the broker, after the consumers that need not wait."""
        first = self.first
        if first is not None and not self.wake_scheduled:
            broker: ConsumeContext | None = first.broker
            assert broker is not None
            self.wake_scheduled = True
            broker.waiting.append(self)
