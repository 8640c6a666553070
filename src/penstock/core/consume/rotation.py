"""Whose turn it is among the consumers of a queue.

Those with the highest priority come first, as long as one of them has room. Among equals it goes round, and in a round
each gets the same: of ten messages and two consumers five each, of a single one whoever is next. Of a queue with a
single active consumer only the one that subscribed first gets anything, and the next when that one is gone.

Theory of operation. Only consumers that may have room stand in the rotation. One that turns out to have none leaves it,
and waits where what it lacks will come from (see consumers.py); `wake` brings it back, as the last in turn. So to find
the next one nobody is looked at twice for nothing, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.consumer_lists import (
    ALONE,
    GONE,
    LISTED,
    READY,
    STANDBY,
    UNFIT,
    ConsumerList,
    RoundRobin,
    WaitList,
)

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class ConsumerSlot:
    """A consumer, and how many messages it may have of those that are there."""

    __slots__ = ("consumer", "room")

    def __init__(self, consumer: Consumer, room: i64) -> None:
        self.consumer = consumer
        self.room: i64 = room


class Rotation:
    """The consumers of one queue that may have room, by priority."""

    def __init__(self, single: bool) -> None:
        self.single = single
        """Only one of them is active at a time."""
        self.exclusive: bool = False
        """There is one consumer, and others are refused."""
        self.top: RoundRobin | None = None
        """Those with the highest priority of all that may have room."""
        self.ranks: list[RoundRobin] = [RoundRobin(0)]
        """All of these, the highest priority first; none is empty, unless it is the only one."""
        self.active: Consumer | None = None
        self.standby = ConsumerList()
        """Of a queue with a single active consumer: that one, and the others in the order of their coming."""
        self.unfit = ConsumerList()
        self.unfit_charge: i64 = 0
        """Consumers whose window in bytes the next message does not fit into, and the largest that did not fit."""
        self.counts: dict[int, int] = {}
        """How many consumers there are of each priority, with room or without."""

    def enter(self, consumer: Consumer) -> None:
        """A consumer subscribed."""
        self.exclusive = consumer.exclusive
        priority = int(consumer.priority)
        self.counts[priority] = self.counts.get(priority, 0) + 1
        if self.single and self.active is not None:
            consumer.state = STANDBY
            self.standby.append(consumer)
            return
        self.active = consumer
        self.make_ready(consumer)

    def leave(self, consumer: Consumer) -> None:
        """A consumer is gone."""
        priority = int(consumer.priority)
        self.counts[priority] -= 1
        if self.counts[priority] == 0:
            del self.counts[priority]
        self.take_out(consumer)
        consumer.state = GONE
        if self.active is consumer:
            self.active = self.standby.first
            if self.active is not None:
                self.standby.remove(self.active)
                self.make_ready(self.active)

    def make_ready(self, consumer: Consumer) -> None:
        """Let a consumer have its turns; it stands in no list."""
        consumer.state = READY
        self._rank(consumer.priority).join(consumer)
        self.top = self.ranks[0]

    def take_out(self, consumer: Consumer) -> None:
        """Take a consumer out of the list that it stands in."""
        place = consumer.list
        ready = consumer.state == READY
        consumer.detach()
        if ready and place is not None and place.size == 0:
            if len(self.ranks) > 1:
                assert isinstance(place, RoundRobin)
                del self.ranks[bisect_left(self.ranks, -int(place.priority), key=_order)]
            self.top = self.ranks[0] if self.ranks[0].size > 0 else None

    def _rank(self, priority: i64) -> RoundRobin:
        """Return those with this priority; there is one rank, even if it is empty, and as a rule no other."""
        ranks = self.ranks
        if ranks[0].size == 0:
            ranks[0].priority = priority
        if ranks[0].priority == priority:
            return ranks[0]
        at = bisect_left(ranks, -int(priority), key=_order)
        if at == len(ranks) or ranks[at].priority != priority:
            ranks.insert(at, RoundRobin(priority))
        return ranks[at]

    def review_unfit(self, queue: Queue) -> None:
        """Let those be tried again whom the message that is next now may fit."""
        oldest = queue.ready_queue.next()
        if oldest is None or oldest.charge >= self.unfit_charge:
            return
        self.unfit_charge = 0
        while self.unfit.first is not None:
            consumer = self.unfit.first
            self.take_out(consumer)
            self.make_ready(consumer)


def add(queue: Queue, consumer: Consumer) -> None:
    """Give a consumer its place among those of its queue."""
    if queue.rotation is None:
        queue.rotation = Rotation(queue.features.single_active)
    queue.consumers[consumer] = None
    queue.rotation.enter(consumer)
    queue.used = True


def remove(queue: Queue, consumer: Consumer) -> None:
    """Take a consumer away; whose turn it is among the others, it stays."""
    assert queue.rotation is not None
    del queue.consumers[consumer]
    queue.rotation.leave(consumer)
    if not queue.consumers:
        queue.consumers = {}  # One that has been large stays large.
        queue.rotation = None


def take_consumers(queue: Queue) -> dict[Consumer, None]:
    """Take all consumers away from a queue that is gone."""
    consumers = queue.consumers
    queue.consumers = {}
    queue.rotation = None
    return consumers


def has_exclusive(queue: Queue) -> bool:
    """Return whether a queue has a consumer that has it for itself."""
    return queue.rotation is not None and queue.rotation.exclusive


def next_consumer(queue: Queue, available: i64, now: float) -> ConsumerSlot | None:
    """Return who gets some of the messages that are there now, None if nobody has room."""
    rotation = queue.rotation
    if rotation is None:
        return None
    if rotation.unfit.size > 0:
        rotation.review_unfit(queue)
    while True:
        rank = rotation.top
        if rank is None:
            return None
        consumer = rank.next
        assert consumer is not None
        if consumer is rank.first or rank.share == 0:
            rank.share = available // rank.size if available > rank.size else 1
        room = consumer.credit_left(now)
        if room > 0 and (consumer.woken or not _stands_behind(consumer)):
            consumer.woken = False
            rank.next = consumer.after
            return ConsumerSlot(consumer, room if room < rank.share else rank.share)
        _park(rotation, consumer, now)


def wake(consumer: Consumer) -> None:
    """Let a consumer be tried again that may have room: it has waited for something that has come."""
    state = consumer.state
    if state == GONE or state == READY or state == STANDBY:
        return
    queue = consumer.queue
    rotation = queue.rotation
    if rotation is None:
        consumer.detach()  # Its queue was deleted.
        return
    rotation.take_out(consumer)
    rotation.make_ready(consumer)
    assert consumer.broker is not None
    consumer.broker.schedule_delivery(queue)


def wake_first(waiting: WaitList) -> None:
    """Wake who has waited longest; it stands behind nobody the next time."""
    consumer = waiting.first
    assert consumer is not None
    wake(consumer)
    consumer.woken = True


def single_active(queue: Queue) -> Consumer | None:
    """Return the single active consumer; None for a queue that may have many."""
    rotation = queue.rotation
    return rotation.active if rotation is not None and rotation.single else None


def waits_behind(consumer: Consumer) -> str:
    """Say in a phrase why others come before it whatever its credit; empty if none do."""
    rotation = consumer.queue.rotation
    if rotation is None:
        return ""
    if rotation.single:
        active = rotation.active
        return "" if active is None or active is consumer else f"consumer '{active.tag}' is the single active one"
    if max(rotation.counts, default=0) > consumer.priority:
        return f"consumers with a higher priority than {consumer.priority} come first"
    return ""


def _stands_behind(consumer: Consumer) -> bool:
    """Return whether others have waited for room that it would take."""
    session = consumer.session
    return session.outlet.size > 0 or (session.line.size > 0 and consumer.shared is session.credit)


def _park(rotation: Rotation, consumer: Consumer, now: float) -> None:
    """Let a consumer that has no room wait for what it lacks, in the order in which `Consumer.credit_left` looks."""
    session = consumer.session
    rotation.take_out(consumer)
    consumer.woken = False
    if not session.receiving():
        _list(consumer, session.line if session.stopped() else session.outlet)
    elif consumer.shared.left() == 0:
        _list(consumer, session.line)
    elif not consumer.no_ack and consumer.credit.left() == 0:
        consumer.state = ALONE
    elif consumer.has_byte_limit() and not consumer.next_fits():
        _set_aside(rotation, consumer)
    elif consumer.rate_limiter is not None and consumer.rate_limiter.wait(now):
        consumer.state = ALONE
    else:
        _list(consumer, session.outlet if session.outlet.size > 0 else session.line)


def _list(consumer: Consumer, waiting: WaitList) -> None:
    consumer.state = LISTED
    waiting.append(consumer)
    if waiting is consumer.session.line:
        consumer.session.held += 1
    if waiting.is_open():
        waiting.schedule_wake()


def _set_aside(rotation: Rotation, consumer: Consumer) -> None:
    consumer.state = UNFIT
    consumer.session.held += 1
    rotation.unfit.append(consumer)
    oldest = consumer.queue.ready_queue.next()
    if oldest is not None and oldest.charge > rotation.unfit_charge:
        rotation.unfit_charge = oldest.charge


def _order(rank: RoundRobin) -> int:
    return -int(rank.priority)
