"""What expires in a queue, and when: its messages (message TTL) and itself (expires, for lack of use)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.publish.death_record import EXPIRED
from penstock.core.queue.queue import Queue
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.work import Steps

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.consume.dispatcher import Dispatcher

EXPIRED_AT_ONCE: Final = 500
"""Messages of a queue that expire at once at most; the others follow in the next turn, so nobody waits."""
EXPIRED_A_TURN: Final = 1000
"""Messages of all queues that expire in one turn of the broker at most."""
EXPIRED_WORK: Final = 2
"""Units of work of a message that expires; what becomes of it as a dead letter is counted there."""


def expire(queue: Queue, now: float, offered: float, most: i64 = UNLIMITED) -> bool:
    """Drop up to `most` messages that are too old and came before `offered`; returns whether that was all of them.

    What a cursor reads does not expire under it.
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
        queue.expired += 1
        if queue.length is not None:
            queue.length.left(message)
        if queue.dead_letters is not None:
            queue.dead_letter(message, EXPIRED, now)
        else:
            if queue.tracks_removals:
                queue.release([message], now)
            messages += 1
            size += message.charge
    if messages > 0:
        queue.settle(messages, size, now)
    return left > 0 or len(queue.cursors) > 0


def expire_some(broker: Dispatcher, queue: Queue) -> bool:
    """Drop what is too old in a queue, as much as this turn may; returns whether that was all."""
    before = queue.expired
    most = broker.expirable if broker.expirable < EXPIRED_AT_ONCE else EXPIRED_AT_ONCE
    fresh = expire(queue, broker.now, broker.expiry_cutoff, most)
    broker.expirable -= queue.expired - before
    broker.work.done += EXPIRED_WORK * (queue.expired - before)
    return fresh


def expire_steps(broker: Dispatcher, queue: Queue) -> Steps[None]:
    """Drop all that is too old in a queue, before somebody gets a message of it; who asks for that pays for it."""
    fresh = False
    while not fresh and not queue.deleted:
        fresh = expire_slice(broker, queue)
        if not fresh and broker.work.used_up():
            yield


def expire_slice(broker: Dispatcher, queue: Queue) -> bool:
    """Drop up to `EXPIRED_AT_ONCE` messages that are too old; returns whether that was all."""
    before = queue.expired
    fresh = expire(queue, broker.now, broker.now, EXPIRED_AT_ONCE)
    broker.work.done += EXPIRED_WORK * (queue.expired - before)
    return fresh


def freshen(broker: Dispatcher, lifetime: QueueExpiry) -> bool:
    """Drop what is too old in a queue before it delivers; returns whether it may: nothing of that is left."""
    fresh = expire_some(broker, lifetime.queue)
    when = lifetime.next_expiry()
    if broker.expirable == 0:
        fresh = when > broker.now  # What is not too old does not wait for what is, in other queues.
    broker.timers.add(lifetime, when if fresh else broker.now)
    return fresh


class QueueExpiry(TimerHandler):
    """A queue's entry in the broker's one timer; only queues with such settings have one."""

    def __init__(self, broker: Broker, queue: Queue) -> None:
        super().__init__()
        self.broker = broker
        self.queue = queue
        self.used: float = broker.now
        """When the queue was last used."""

    def next_expiry(self) -> float:
        """Return when something expires: a message, or the queue; infinity for nothing.

        Messages may come back to a queue that is deleted; nobody looks at it any more.
        """
        if self.queue.deleted:
            return NEVER
        settings = self.queue.settings
        when = NEVER if self.queue.cursors else self.queue.ready_queue.due(settings.message_ttl_s)
        if settings.expires_s != NEVER and self._unused():
            when = min(when, self.used + settings.expires_s)
        return when

    def on_deadline(self, now: float) -> float:
        """See `TimerHandler.on_deadline`."""
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
