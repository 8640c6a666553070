"""Rotation of the consumers of a queue: priorities, round-robin, single active consumer.

Consumers with the highest priority come first while one of them has credit. Consumers of equal priority take turns,
with equal shares in a round: of ten messages two consumers get five each. A single message goes to the next consumer.
With a single active consumer only the first subscriber gets messages, and the next subscriber when the first has ended.
In a quorum queue priorities count there, too (as in RabbitMQ 4): the active consumer yields to a higher priority once
its deliveries are settled.

Theory of operation. Only consumers that may have credit are in the rotation. A consumer without credit leaves the
rotation and waits where the missing resource becomes available (see consumer.py); `wake` returns it, as the last
in turn. So no consumer is checked twice in vain to find the next one, however many consumers there are.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.consumer import (
    ALONE,
    GONE,
    LISTED,
    READY,
    STANDBY,
    UNFIT,
    UNMATCHED,
    YIELDING,
    Consumer,
    ConsumerList,
    RoundRobin,
    WaitList,
)
from penstock.core.consume.scan import Scan
from penstock.core.queue.context import Subscriptions
from penstock.core.queue.indexed_ready_queue import indexed, lines_of
from penstock.core.queue.queue import Queue

CONSUMERS_ASKED: Final = 64
"""Most consumers that are checked for credit for one message."""


class ConsumerSlot:
    """A consumer, and the number of messages it may have now."""

    __slots__ = ("consumer", "room")

    def __init__(self, consumer: Consumer, room: i64) -> None:
        self.consumer = consumer
        self.room: i64 = room


class Rotation(Subscriptions):
    """The consumers of one queue that may have credit, by priority."""

    def __init__(self, single: bool, yields: bool = False) -> None:
        self.single = single
        """True if only one consumer is active at a time."""
        self.yields = yields
        """True if the active consumer yields to a higher priority."""
        self.exclusive: bool = False
        """True if there is an exclusive consumer, so that others are refused."""
        self.top: RoundRobin | None = None
        """The consumers with the highest priority among those that may have credit."""
        self.ranks: list[RoundRobin] = [RoundRobin(0)]
        """All ranks, the highest priority first; no rank is empty, unless it is the only one."""
        self.active: Consumer | None = None
        self.standby = ConsumerList()
        """With a single active consumer: the active consumer, and the others in the order of subscription."""
        self.unfit = ConsumerList()
        self.unfit_charge: i64 = 0
        """Consumers whose byte window is too small for the next message, and the largest charge that did not fit."""
        self.unmatched = ConsumerList()
        """Consumers whose selector, or browser, has passed all present messages."""
        self.scans: i64 = 0
        """Number of consumers with a selector, and of browsers."""
        self.counts: dict[int, int] = {}
        """Number of consumers of each priority, with or without credit."""
        self.draining: dict[Consumer, None] = {}
        """Consumers and browsers whose receiver waits until no more can be delivered (see session.py)."""
        self.browsing: dict[Consumer, None] = {}
        """Browsers of the queue, which do not count as consumers: they take no messages."""
        self.browsers: Rotation | None = None
        """Rotation of the browsers; None while there are none."""
        self.browsed: bool = False
        """True if browsers had the last turn: consumers and browsers take turns."""

    @override
    def bar_to_cursors(self) -> str:
        if self.exclusive:
            return "an exclusive consumer"
        return "browsers, or consumers with selectors or groups" if self.scans > 0 else ""

    @override
    def want(self, messages: i64, now: float) -> bool:
        room: i64 = 0
        left = CONSUMERS_ASKED
        for rank in self.ranks:
            consumer = rank.next
            for _ in range(min(int(rank.size), left)):
                assert consumer is not None
                room += consumer.credit_left(now)
                if room >= messages:
                    return True
                consumer = consumer.after
                left -= 1
        return False

    def room(self, priority: i64, most: i64, now: float) -> i64:
        """Return how many messages consumers of at least this priority may have now, `most` at most.

        At most `CONSUMERS_ASKED` of each priority are asked.
        """
        room: i64 = 0
        for rank in self.ranks:
            if rank.priority < priority:
                break
            consumer = rank.next
            for _ in range(min(int(rank.size), CONSUMERS_ASKED)):
                assert consumer is not None
                left = consumer.credit_left(now)
                if left >= most - room:
                    return most
                room += left
                consumer = consumer.after
        return room

    def enter(self, consumer: Consumer) -> None:
        """Add a subscribed consumer."""
        self.exclusive = consumer.exclusive
        priority = int(consumer.priority)
        self.counts[priority] = self.counts.get(priority, 0) + 1
        if self.single and self.active is not None:
            consumer.state = STANDBY
            self.standby.append(consumer)
            if self.yields and consumer.priority > self.active.priority:
                self.take_out(self.active)
                self.active.state = YIELDING
                self.hand_over()
            return
        self.active = consumer
        self.make_ready(consumer)

    def leave(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        priority = int(consumer.priority)
        self.counts[priority] -= 1
        if self.counts[priority] == 0:
            del self.counts[priority]
        self.take_out(consumer)
        consumer.state = GONE
        if self.active is consumer:
            self._activate()

    def hand_over(self) -> None:
        """Activate the next consumer if the active one yields and has no unsettled deliveries."""
        active = self.active
        assert active is not None
        if active.credit.out == 0:
            self._activate()
            active.state = STANDBY
            self.standby.append(active)

    def _activate(self) -> None:
        """Activate a waiting consumer, if there is one: the first, or the one of the highest priority."""
        best = self.standby.first
        consumer = best
        for _ in range(int(self.standby.size) if self.yields else 0):
            assert best is not None and consumer is not None
            best = consumer if consumer.priority > best.priority else best
            consumer = consumer.after
        self.active = best
        if best is not None:
            self.standby.remove(best)
            self.make_ready(best)

    def park_unmatched(self, consumer: Consumer) -> None:
        """Park a consumer until new messages arrive."""
        self.take_out(consumer)
        consumer.state = UNMATCHED
        self.unmatched.append(consumer)

    def review_unmatched(self) -> None:
        """Wake the consumers that have not checked all messages."""
        consumer = self.unmatched.first
        for _ in range(int(self.unmatched.size)):
            assert consumer is not None
            following = consumer.after
            if consumer.scan is None or consumer.scan.has_more():
                self.take_out(consumer)
                self.make_ready(consumer)
            consumer = following

    def make_ready(self, consumer: Consumer) -> None:
        """Add a consumer to its rank; the consumer must be in no list."""
        consumer.state = READY
        self._rank(consumer.priority).join(consumer)
        self.top = self.ranks[0]

    def take_out(self, consumer: Consumer) -> None:
        """Remove a consumer from its list."""
        listed = consumer.list
        ready = consumer.state == READY
        consumer.detach()
        if ready and listed is not None and listed.size == 0:
            if len(self.ranks) > 1:
                assert isinstance(listed, RoundRobin)
                del self.ranks[bisect_left(self.ranks, -int(listed.priority), key=_order)]
            self.top = self.ranks[0] if self.ranks[0].size > 0 else None

    def _rank(self, priority: i64) -> RoundRobin:
        """Return the rank of a priority; creates a missing rank."""
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
        """Wake the consumers whose byte window may fit the present next message."""
        oldest = queue.ready_queue.next()
        if oldest is None or oldest.charge >= self.unfit_charge:
            return
        self.unfit_charge = 0
        while self.unfit.first is not None:
            consumer = self.unfit.first
            self.take_out(consumer)
            self.make_ready(consumer)


def rotation_of(queue: Queue) -> Rotation | None:
    """Return the rotation of a queue; None while it has no consumers."""
    rotation = queue.rotation
    return rotation if isinstance(rotation, Rotation) else None


def consumers_of(queue: Queue, most: int | None = None) -> list[Consumer]:
    """Return the consumers of a queue, or the first ones, in the order of their subscription."""
    return [each for each in islice(queue.consumers, most) if isinstance(each, Consumer)]


def browsers_of(queue: Queue) -> list[Consumer]:
    """Return the browsers of a queue, in the order of their subscription."""
    rotation = rotation_of(queue)
    return [] if rotation is None else list(rotation.browsing)


def add(queue: Queue, consumer: Consumer) -> None:
    """Add a consumer to a queue."""
    rotation = rotation_of(queue)
    if rotation is None:
        rotation = Rotation(queue.features.single_active, queue.features.type.active_yields)
        queue.rotation = rotation
    if consumer.scan is not None:
        begin_scan(consumer, consumer.scan)
    if consumer.browses():
        if rotation.browsers is None:
            rotation.browsers = Rotation(False)
        rotation.browsing[consumer] = None
        rotation.browsers.enter(consumer)
        return
    queue.consumers[consumer] = None
    rotation.enter(consumer)
    queue.used = True


def begin_scan(consumer: Consumer, scan: Scan) -> None:
    """Begin the scan of a consumer whose queue has a rotation."""
    queue = consumer.queue
    rotation = rotation_of(queue)
    assert rotation is not None
    queue.ready_queue = indexed(queue.ready_queue)
    rotation.scans += 1
    consumer.scan = scan
    scan.filter.receiver = consumer
    scan.begin()


def remove(queue: Queue, consumer: Consumer) -> None:
    """Remove a consumer from a queue; the order of the others does not change."""
    rotation = rotation_of(queue)
    assert rotation is not None
    rotation.draining.pop(consumer, None)
    scan = consumer.scan
    if scan is not None:
        rotation.scans -= 1
        scan.end()
    if rotation.browsers is not None and consumer.browses():
        del rotation.browsing[consumer]
        rotation.browsers.leave(consumer)
        if not rotation.browsing:
            rotation.browsers = None
    else:
        del queue.consumers[consumer]
        rotation.leave(consumer)
    if not queue.consumers:
        queue.consumers = {}  # A dict that was large keeps its memory.
        if rotation.browsers is None:
            queue.rotation = None


def is_subscribed(consumer: Consumer) -> bool:
    """Return whether a consumer, or browser, is subscribed to its queue."""
    if consumer in consumer.queue.consumers:
        return True
    rotation = rotation_of(consumer.queue)
    return rotation is not None and consumer in rotation.browsing


def scans_of(queue: Queue) -> i64:
    """Return the number of consumers with a selector, and of browsers, of a queue."""
    rotation = rotation_of(queue)
    return 0 if rotation is None else rotation.scans


def take_consumers(queue: Queue) -> list[Consumer]:
    """Remove all consumers and browsers from a deleted queue."""
    consumers = consumers_of(queue) + browsers_of(queue)
    queue.consumers = {}
    queue.rotation = None
    return consumers


def has_exclusive(queue: Queue) -> bool:
    """Return whether a queue has an exclusive consumer."""
    rotation = rotation_of(queue)
    return rotation is not None and rotation.exclusive


def review_unmatched(rotation: Rotation, queue: Queue) -> None:
    """Wake the consumers and browsers that have not checked all messages, if any arrived since the last call."""
    news = False
    for line in lines_of(queue.ready_queue):
        if line.take_news():
            news = True
    browsers = rotation.browsers
    if browsers is not None and browsers.unmatched.size > 0:
        browsers.review_unmatched()  # Also for pages, which have no index.
    if news:
        rotation.review_unmatched()


def next_consumer(rotation: Rotation, queue: Queue, available: i64, now: float) -> ConsumerSlot | None:
    """Return the next consumer with its share of the available messages; None if none has credit."""
    if rotation.unfit.size > 0:
        rotation.review_unfit(queue)
    while True:
        rank = rotation.top
        if rank is None:
            return None
        consumer = rank.next
        assert consumer is not None
        share = rank.next_share(available)
        room = consumer.credit_left(now)
        if room > 0 and (consumer.woken or not _yields_to_waiting(consumer)):
            consumer.woken = False
            rank.finish_turn()
            return ConsumerSlot(consumer, room if room < share else share)
        _park(rotation, consumer, now)


def wake(consumer: Consumer) -> None:
    """Wake a consumer whose missing resource may be available."""
    state = consumer.state
    if state == GONE or state == READY or state == STANDBY:
        return
    queue = consumer.queue
    rotation = rotation_of(queue)
    if rotation is not None and consumer.browses():
        rotation = rotation.browsers
    if rotation is None:
        consumer.detach()  # The consumer's queue was deleted.
        return
    if state == YIELDING:
        rotation.hand_over()
    else:
        rotation.take_out(consumer)
        rotation.make_ready(consumer)
    assert consumer.broker is not None
    consumer.broker.schedule_delivery(queue)


def wake_first(waiting: WaitList) -> None:
    """Wake the consumer that has waited longest; it is first at its next turn."""
    consumer = waiting.first
    assert consumer is not None
    wake(consumer)
    consumer.woken = True


def single_active(queue: Queue) -> Consumer | None:
    """Return the single active consumer; None for a queue with other dispatch."""
    rotation = rotation_of(queue)
    return rotation.active if rotation is not None and rotation.single else None


def waits_behind(consumer: Consumer) -> str:
    """Return the reason why other consumers are first, whatever this consumer's credit; empty if none are."""
    rotation = rotation_of(consumer.queue)
    if rotation is None or consumer.browses():
        return ""
    if rotation.single:
        active = rotation.active
        if active is consumer:
            return "it yields to a higher priority when its deliveries are settled" if active.state == YIELDING else ""
        return "" if active is None else f"consumer '{active.tag}' is the single active one"
    if max(rotation.counts, default=0) > consumer.priority:
        return f"consumers with a higher priority than {consumer.priority} come first"
    return ""


def _yields_to_waiting(consumer: Consumer) -> bool:
    """Return whether other consumers have waited for the credit that this consumer would take."""
    session = consumer.session
    return session.outlet.size > 0 or (session.line.size > 0 and consumer.shared is session.credit)


def _park(rotation: Rotation, consumer: Consumer, now: float) -> None:
    """Put a consumer without credit in the list for the missing credit, in the order of `Consumer.credit_left`."""
    session = consumer.session
    rotation.take_out(consumer)
    consumer.woken = False
    if not session.receiving():
        _list(consumer, session.line if session.stopped() else session.outlet)
    elif consumer.shared.left() == 0:
        _list(consumer, session.line)
    elif consumer.credit.left() == 0:
        consumer.state = ALONE
    elif consumer.has_byte_limit() and not consumer.next_fits():
        _set_aside(rotation, consumer)
    elif consumer.adaptive_window is not None and consumer.adaptive_window.left() == 0:
        consumer.state = ALONE
        consumer.adaptive_window.wait(now)
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
