"""Expiry of messages (message TTL) and of unused queues (expires)."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.deaths import EXPIRED
from penstock.core.queue.context import QueueContext
from penstock.core.queue.queue import Queue
from penstock.core.queue.sweeping import sweep
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.work import Steps

EXPIRED_AT_ONCE: Final = 500
"""Most messages of one queue that expire in one step; the others follow in the next turn."""
EXPIRED_A_TURN: Final = 1000
"""Most messages of all queues that expire in one broker turn."""
EXPIRED_WORK: Final = 2
"""Units of work of an expired message; its dead-lettering counts separately."""


def expire(queue: Queue, now: float, offered: float, most: i64 = UNLIMITED) -> bool:
    """Expire up to `most` messages that arrived before `offered`; returns whether no expired messages are left.

    Messages that a cursor reads do not expire.
    """
    ttl_s = queue.settings.message_ttl_s
    messages: i64 = 0
    size: i64 = 0
    left = 0 if queue.cursors else most
    while left > 0:
        message = queue.ready_queue.take_due(now, ttl_s, offered)
        if message is None:
            break
        left -= 1
        queue.counters.count_expiry()
        if queue.length is not None:
            queue.length.on_removed(message)
        if queue.dead_letters is not None:
            queue.dead_letter(message, EXPIRED, now)
        else:
            if queue.tracks_removals:
                queue.release([message], now)
            messages += 1
            size += message.charge
    sweep(queue)
    if messages > 0:
        queue.counters.own().withdrawn += messages
        queue.settle(messages, size, now)
    return left > 0 or len(queue.cursors) > 0


def expire_some(broker: QueueContext, queue: Queue) -> bool:
    """Expire messages of a queue, as many as this turn permits; returns whether no expired messages are left."""
    before = queue.counters.expired
    most = broker.expirable if broker.expirable < EXPIRED_AT_ONCE else EXPIRED_AT_ONCE
    fresh = expire(queue, broker.now, broker.expiry_cutoff, most)
    broker.expirable -= queue.counters.expired - before
    broker.work.done += EXPIRED_WORK * (queue.counters.expired - before)
    return fresh


def expire_steps(broker: QueueContext, queue: Queue) -> Steps[None]:
    """Expire all due messages before a basic.get; the requesting client pays for the work."""
    fresh = False
    while not fresh and not queue.deleted:
        fresh = expire_slice(broker, queue)
        if not fresh and broker.work.used_up():
            yield


def expire_slice(broker: QueueContext, queue: Queue) -> bool:
    """Expire up to `EXPIRED_AT_ONCE` messages; returns whether no expired messages are left."""
    before = queue.counters.expired
    fresh = expire(queue, broker.now, broker.now, EXPIRED_AT_ONCE)
    broker.work.done += EXPIRED_WORK * (queue.counters.expired - before)
    return fresh


def freshen(broker: QueueContext, lifetime: QueueExpiry) -> bool:
    """Expire messages before a delivery; returns whether the queue may deliver, because no expired messages are
    left.
    """
    fresh = expire_some(broker, lifetime.queue)
    when = lifetime.next_expiry()
    if broker.expirable == 0:
        fresh = when > broker.now  # A queue without expired messages does not wait for other queues.
    broker.timers.add(lifetime, when if fresh else broker.now)
    return fresh


class QueueExpiry(TimerHandler):
    """The expiry timer of a queue; only queues with such settings have a timer."""

    def __init__(self, broker: QueueContext, queue: Queue) -> None:
        super().__init__()
        self.broker = broker
        self.queue = queue
        self.used: float = broker.now
        """Time of the last use of the queue."""

    def next_expiry(self) -> float:
        """Return the next expiry time, of a message or of the queue; infinity without one.

        A deleted queue never expires, though messages may still be requeued to it.
        """
        if self.queue.deleted:
            return NEVER
        settings = self.queue.settings
        when = NEVER if self.queue.cursors else self.queue.ready_queue.due(settings.message_ttl_s)
        if settings.expires_s != NEVER and self._unused():
            when = min(when, self.used + settings.expires_s)
        return when

    @override
    def on_deadline(self, now: float) -> float:
        if self.queue.deleted:
            return NEVER
        expire_some(self.broker, self.queue)
        if self._unused() and self.used + self.queue.settings.expires_s <= now:
            self.broker.delete_queue(self.queue)
            return NEVER
        self.broker.schedule_delivery(self.queue)
        return self.next_expiry()

    def _unused(self) -> bool:
        return not self.queue.consumers and not self.queue.cursors
