"""Deliveries that a consumer gives back, or refuses, all at once: a slice of them is dealt with in each turn.

Theory of operation. They are settled for the consumer at once: their tags are unknown from then on, its credit is
free. In their queues they count as with a consumer until it is their turn, oldest first. A queue to which some are on
their way back delivers nothing meanwhile, or what is younger would overtake them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.consumer import Batch
from penstock.core.leftovers import AT_ONCE
from penstock.flow.chores import Chore

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.queue import Queue
    from penstock.core.session import Session


class Returning(Chore):
    """Batches of deliveries of one session, on their way back to their queues."""

    def __init__(self, broker: Broker, batches: deque[Batch]) -> None:
        super().__init__()
        self.broker = broker
        self.batches = batches
        for batch in batches:
            queue = batch.consumer.queue
            queue.coming_back += batch.left
            if self not in queue.returns:
                queue.returns.append(self)

    def has_more(self) -> bool:
        """See `Chore.has_more`."""
        return len(self.batches) > 0

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`: a message is a unit; a batch is dealt with as a whole."""
        spent: i64 = 0
        while self.batches and spent < most:
            spent += self._put_back(self.batches.popleft(), now)
        return spent

    def hurry(self, queue: Queue, now: float) -> None:
        """Put the oldest batch of this queue back, and those before it."""
        found = False
        while self.batches and not found:
            batch = self.batches.popleft()
            found = batch.consumer.queue is queue
            self._put_back(batch, now)

    def take(self, queue: Queue) -> list[Batch]:
        """Take those of this queue out, which is purged; the others stay."""
        found = [batch for batch in self.batches if batch.consumer.queue is queue]
        self.batches = deque([batch for batch in self.batches if batch.consumer.queue is not queue])
        for batch in found:
            queue.coming_back -= batch.left
            queue.unacked(-batch.left, -batch.charge)
        queue.returns.remove(self)
        return found

    def _put_back(self, batch: Batch, now: float) -> i64:
        queue = batch.consumer.queue
        count: i64 = len(batch.messages)
        queue.coming_back -= batch.left
        for message in batch.messages:
            if message is not None:
                queue.unacked(-1, -message.charge)
                queue.requeue(message, now)
        if self not in queue.returns or self._has(queue):
            return count
        queue.returns.remove(self)
        if not queue.returns:
            self.broker.mark(queue)
        return count

    def _has(self, queue: Queue) -> bool:
        if self.batches and self.batches[0].consumer.queue is queue:
            return True
        return queue.coming_back > 0 and any(batch.consumer.queue is queue for batch in self.batches)


class Refusing(Chore):
    """Batches of deliveries that were refused: they die, or go."""

    def __init__(self, batches: deque[Batch]) -> None:
        super().__init__()
        self.batches = batches

    def has_more(self) -> bool:
        """See `Chore.has_more`."""
        return len(self.batches) > 0

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`: a message is a unit; a batch is dealt with as a whole."""
        spent: i64 = 0
        while self.batches and spent < most:
            batch = self.batches.popleft()
            queue = batch.consumer.queue
            for message in batch.messages:
                if message is not None:
                    queue.unacked(-1, -message.charge)
                    queue.reject(message, now)
            spent += len(batch.messages)
        return spent


def requeue_all(broker: Broker, session: Session, tag: i64) -> None:
    """Put all deliveries up to and including `tag` (0: all) back where they were, many of them in turns that come.

    Raises PreconditionFailed for an unknown tag.
    """
    if session.span(tag) <= AT_ONCE:
        for queue in session.requeue(tag, True, broker.now):
            broker.mark(queue)
        return
    returning = Returning(broker, session.detach(tag))
    returning.work(AT_ONCE, broker.now)
    broker.turns.chores.add(returning)


def refuse_all(broker: Broker, session: Session, tag: i64) -> None:
    """Let all deliveries up to and including `tag` (0: all) die or go, many of them in turns that come.

    Raises PreconditionFailed for an unknown tag.
    """
    if session.span(tag) <= AT_ONCE:
        session.discard(tag, True, broker.now)
        return
    refusing = Refusing(session.detach(tag))
    refusing.work(AT_ONCE, broker.now)
    broker.turns.chores.add(refusing)
