"""Whose turn it is among the consumers of a queue.

Those with the highest priority come first, as long as one of them has room. Among equals it goes round, and in a round
each gets the same: of ten messages and two consumers five each, of a single one whoever is next. Of a queue with a
single active consumer only the one that subscribed first gets anything, and the next when that one is gone.
"""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.consumer import Consumer
from penstock.core.queue import Queue


class Turn:
    """A consumer, and how many messages it may have of those that are there."""

    __slots__ = ("consumer", "room")

    def __init__(self, consumer: Consumer, room: i64) -> None:
        self.consumer = consumer
        self.room: i64 = room


def add(queue: Queue, consumer: Consumer) -> None:
    """Give a consumer its place among those of its queue."""
    consumers = queue.consumers
    at = len(consumers)
    if not queue.features.single_active:
        while at > 0 and consumers[at - 1].priority < consumer.priority:
            at -= 1
        first = _start_of_rank(consumers, at, consumer.priority)
        if first < at and consumers[first].following > 0:
            # The last in turn stands right before the next one (as in RabbitMQ).
            at = first + int(consumers[first].following)
            consumers[first].following += 1
    consumers.insert(at, consumer)
    queue.ranked = queue.ranked or consumer.priority != 0
    queue.used = True


def remove(queue: Queue, consumer: Consumer) -> None:
    """Take a consumer away; whose turn it is among the others, it stays."""
    consumers = queue.consumers
    at = consumers.index(consumer)
    first = _start_of_rank(consumers, at, consumer.priority)
    following, share = consumers[first].following, consumers[first].share
    if at - first < following:
        following -= 1
    del consumers[at]
    if first < len(consumers) and consumers[first].priority == consumer.priority:
        consumers[first].following, consumers[first].share = following, share
    queue.ranked = any(each.priority != 0 for each in queue.consumers)


def whose_turn(queue: Queue, available: i64, now: float) -> Turn | None:
    """Return who gets some of the messages that are there now, None if nobody has room."""
    consumers = queue.consumers
    count: i64 = 1 if queue.features.single_active and consumers else len(consumers)
    first: i64 = 0
    while first < count:
        end = _end_of_rank(consumers, first, count) if queue.ranked else count
        size = end - first
        head = consumers[first]
        tried: i64 = 0
        while tried < size:
            if head.following >= size:
                head.following = 0
            if head.following == 0 or head.share == 0:
                head.share = available // size if available > size else 1
            consumer = consumers[first + head.following]
            # Back to the first at once: who subscribes later stands behind those who were there (as in RabbitMQ).
            head.following = head.following + 1 if head.following + 1 < size else 0
            room = consumer.room(now)
            if room > 0:
                return Turn(consumer, room if room < head.share else head.share)
            tried += 1
        first = end
    return None


def waits_behind(consumer: Consumer) -> str:
    """Say in a phrase why others come before it whatever its credit; empty if none do."""
    queue = consumer.queue
    if not queue.consumers or queue.consumers[0] is consumer:
        return ""
    if queue.features.single_active:
        return f"consumer '{queue.consumers[0].tag}' is the single active one"
    if queue.consumers[0].priority > consumer.priority:
        return f"consumers with a higher priority than {consumer.priority} come first"
    return ""


def _start_of_rank(consumers: list[Consumer], at: int, priority: i64) -> int:
    """Return where those with this priority begin that stand right before a place."""
    while at > 0 and consumers[at - 1].priority == priority:
        at -= 1
    return at


def _end_of_rank(consumers: list[Consumer], first: i64, count: i64) -> i64:
    end = first + 1
    while end < count and consumers[end].priority == consumers[first].priority:
        end += 1
    return end
