"""Deliveries that a consumer gives back, or refuses, all at once, or that were left when its session ended: a slice of
them is dealt with in each turn.

Theory of operation. For the consumer they are settled at once: their tags are unknown from then on, its credit is
free. In their queues they count as with a consumer until it is their turn. A queue to which some are on their way back
delivers nothing meanwhile, or what is younger would overtake them. So they are sorted by queue, and one queue has
all of its own back, oldest first, before the next one has any: each is held up as briefly as can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume.consumer import Batch
from penstock.flow.chores import Chore
from penstock.flow.work import AT_ONCE

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.consume.session import Session
    from penstock.core.queue.queue import Queue

SORTED_A_UNIT: Final = 8
"""Batches that are sorted by queue with one unit of work; that is done at once, for all of a session."""


class Returning(Chore):
    """Batches of deliveries of one session, on their way back to their queues."""

    def __init__(self, broker: Broker, batches: list[Batch]) -> None:
        super().__init__()
        self.broker = broker
        self._batches: dict[Queue, list[Batch]] = {}
        """Those of each queue, the oldest last."""
        self._queues: list[Queue] = []
        """The queues, the next one last; some may have all of theirs back by now."""
        broker.work.done += len(batches) // SORTED_A_UNIT
        while batches:
            batch = batches.pop()
            if batch.left > 0:
                self._expect(batch)

    def _expect(self, batch: Batch) -> None:
        queue = batch.consumer.queue
        queue.coming_back += batch.left
        batches = self._batches.get(queue)
        if batches is None:
            self._batches[queue] = [batch]
            self._queues.append(queue)
            queue.returning[self] = None
        else:
            batches.append(batch)

    def has_more(self) -> bool:
        """See `Chore.has_more`."""
        return len(self._batches) > 0

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`: a message is a unit; a batch is dealt with as a whole."""
        spent: i64 = 0
        while self._batches and spent < most:
            queue = self._queues[len(self._queues) - 1]
            if queue in self._batches:
                spent += self.put_back(queue, now)
            else:
                self._queues.pop()
        return spent

    def put_back(self, queue: Queue, now: float) -> i64:
        """Put the oldest batch of one queue back; returns how much work that was."""
        batches = self._batches[queue]
        batch = batches.pop()
        queue.coming_back -= batch.left
        for message in batch.messages:
            if message is not None:
                queue.unacked(-1, -message.charge)
                queue.requeue(message, now)
        if not batches:
            self._release(queue)
            if not queue.returning:
                self.broker.schedule_delivery(queue)
        return len(batch.messages)

    def oldest(self, queue: Queue) -> i64:
        """Return the sequence of the message that comes back to a queue next."""
        batches = self._batches[queue]
        for message in batches[len(batches) - 1].messages:
            if message is not None:
                return message.sequence
        return 0

    def take(self, queue: Queue) -> list[Batch]:
        """Take those of this queue out, which is purged; the others stay."""
        batches = self._batches[queue]
        self._release(queue)
        for batch in batches:
            queue.coming_back -= batch.left
            queue.unacked(-batch.left, -batch.charge)
        return batches

    def _release(self, queue: Queue) -> None:
        """A queue has all of its own back."""
        del self._batches[queue]
        del queue.returning[self]


class Refusing(Chore):
    """Batches of deliveries that were refused: they die, or go."""

    def __init__(self, batches: list[Batch]) -> None:
        super().__init__()
        self._batches = batches
        """The oldest last."""
        batches.reverse()

    def has_more(self) -> bool:
        """See `Chore.has_more`."""
        return len(self._batches) > 0

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`: a message is a unit; a batch is dealt with as a whole."""
        spent: i64 = 0
        while self._batches and spent < most:
            batch = self._batches.pop()
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
            broker.schedule_delivery(queue)
        return
    returning = Returning(broker, session.detach(tag))
    returning.work(AT_ONCE, broker.now)
    broker.turns.chores.add(returning)


def refuse_all(broker: Broker, session: Session, tag: i64) -> None:
    """Let all deliveries up to and including `tag` (0: all) die or go, many of them in turns that come.

    Raises PreconditionFailed for an unknown tag.
    """
    if session.span(tag) <= AT_ONCE:
        session.reject(tag, True, broker.now)
        return
    refusing = Refusing(session.detach(tag))
    refusing.work(AT_ONCE, broker.now)
    broker.turns.chores.add(refusing)
