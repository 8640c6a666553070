"""Bulk requeue and bulk settlement of deliveries, a slice in each turn.

Used when a consumer requeues or rejects many deliveries at once, and when a session closes with many unsettled
deliveries.

Theory of operation. For the consumer the deliveries are settled at once: their tags are unknown from then on, and its
credit is restored. In their queues they count as unacknowledged until their slice. A queue with deliveries to be
requeued delivers no messages meanwhile, or younger messages would overtake. So deliveries are sorted by queue, and each
queue gets all of its deliveries back, oldest first, before the next queue. This delays each queue as briefly as
possible.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.consumer import Batch
from penstock.core.consume.outcome import ADDING_COST, AddedHeaders, Outcome, is_rejection, settle_batch
from penstock.core.message import Message
from penstock.core.queue.context import QueueContext, Requeueing
from penstock.core.queue.queue import Queue
from penstock.core.queue.ready_queue import Priorities
from penstock.flow.level import UNLIMITED
from penstock.flow.work import AT_ONCE, Chore

SORTED_A_UNIT: Final = 8
"""Batches sorted by queue with one unit of work; all batches of a session are sorted at once."""


class BulkRequeue(Requeueing):
    """Requeueing of batches of one session."""

    def __init__(
        self,
        broker: QueueContext,
        batches: list[Batch],
        outcome: Outcome = Outcome.FAILED,
        added: AddedHeaders | None = None,
    ) -> None:
        super().__init__()
        self.broker = broker
        self._outcome = outcome
        """FAILED, RELEASED, or UNDELIVERABLE without a dead-letter exchange."""
        self._added = added
        self._batches: dict[Queue, list[Batch]] = {}
        """Batches of each queue, the batch with the oldest message last: a redelivered message is in a later batch."""
        self._queues: list[Queue] = []
        """The queues, the next queue last; some may be finished already."""
        broker.work.done += len(batches) // SORTED_A_UNIT
        while batches:
            batch = batches.pop()
            if batch.left > 0:
                self._expect(batch)
        for of_queue in self._batches.values():
            of_queue.sort(key=_first_sequence, reverse=True)

    def _expect(self, batch: Batch) -> None:
        queue = batch.consumer.queue
        queue.coming_back += batch.left
        batches = self._batches.get(queue)
        if batches is None:
            self._batches[queue] = [batch]
            self._queues.append(queue)
            if queue.returning is None:
                queue.returning = {}
            queue.returning[self] = None
        else:
            batches.append(batch)

    @override
    def has_more(self) -> bool:
        return len(self._batches) > 0

    def work(self, most: i64, now: float) -> i64:
        """Requeue messages; each is one unit of work, and a batch is requeued as a whole."""
        spent: i64 = 0
        while self._batches and spent < most:
            queue = self._queues[len(self._queues) - 1]
            if queue in self._batches:
                spent += self.put_back(queue, now)
            else:
                self._queues.pop()
        return spent

    @override
    def put_back(self, queue: Queue, now: float) -> i64:
        batches = self._batches[queue]
        batch = batches.pop()
        queue.coming_back -= batch.left
        settle_batch(batch, self._outcome, now, self._added)
        if not batches:
            self._release(queue)
            if queue.returning is None:
                self.broker.schedule_delivery(queue)
        return _cost(batch, self._added)

    @override
    def oldest(self, queue: Queue) -> i64:
        batches = self._batches[queue]
        return _first_sequence(batches[len(batches) - 1])

    @override
    def take(self, queue: Queue) -> list[list[Message | None]]:
        batches = self._batches[queue]
        self._release(queue)
        for batch in batches:
            queue.coming_back -= batch.left
            queue.unacked(-batch.left, -batch.charge)
        return [batch.messages for batch in batches]

    def _release(self, queue: Queue) -> None:
        """Resume deliveries of a queue whose messages are all requeued."""
        del self._batches[queue]
        others = queue.returning
        if others is not None:
            del others[self]
            if not others:
                queue.returning = None


class BulkSettlement(Chore):
    """Settlement of batches of deliveries whose messages leave their queues: accepted or rejected."""

    def __init__(self, batches: list[Batch], outcome: Outcome, added: AddedHeaders | None = None) -> None:
        super().__init__()
        self._outcome = outcome
        self._added = added
        self._batches = batches
        """The batches, the oldest last."""
        batches.reverse()

    @override
    def has_more(self) -> bool:
        return len(self._batches) > 0

    def work(self, most: i64, now: float) -> i64:
        """Settle messages; each is one unit of work without headers, and a batch is settled as a whole."""
        spent: i64 = 0
        while self._batches and spent < most:
            batch = self._batches.pop()
            spent += _cost(batch, self._added)
            settle_batch(batch, self._outcome, now, self._added)
        return spent


def _first_sequence(batch: Batch) -> i64:
    """Return the sequence of a batch's first unsettled message."""
    for message in batch.messages:
        if message is not None:
            return message.sequence
    return 0


def _cost(batch: Batch, added: AddedHeaders | None) -> i64:
    """Return the units of work to settle a batch."""
    count: i64 = len(batch.messages)
    return count if added is None else count * ADDING_COST


def finish_requeueing(queue: Queue, now: float) -> None:
    """Finish the requeueing of a queue's oldest messages before a basic.get."""
    while queue.returning is not None:
        first: Requeueing | None = None
        oldest: i64 = UNLIMITED
        for returning in queue.returning:
            sequence = returning.oldest(queue)
            if sequence < oldest:
                first, oldest = returning, sequence
        there = queue.ready_queue.next()
        if first is None or (there is not None and there.sequence < oldest):
            return
        first.put_back(queue, now)
        if isinstance(queue.ready_queue, Priorities) and queue.available():
            return  # With priorities the next message need not be the oldest, so this might never end.


def settle_batches(
    broker: QueueContext, batches: list[Batch], outcome: Outcome, added: AddedHeaders | None = None
) -> None:
    """Settle the deliveries of batches that were detached from their session, in order; many in later turns."""
    if outcome is Outcome.ACCEPTED:
        for batch in batches:
            batch.consumer.session.unsettled.unaccepted -= batch.left
    if outcome is Outcome.UNDELIVERABLE:
        back = [batch for batch in batches if not is_rejection(outcome, batch.consumer.queue)]
        batches = [batch for batch in batches if is_rejection(outcome, batch.consumer.queue)]
        _begin(broker, BulkRequeue(broker, back, outcome, added))
    if outcome is Outcome.RELEASED or outcome is Outcome.FAILED:
        _begin(broker, BulkRequeue(broker, batches, outcome, added))
    else:
        _begin(broker, BulkSettlement(batches, outcome, added))


def _begin(broker: QueueContext, chore: Chore) -> None:
    """Do a turn's part of a chore; the rest follows in later turns."""
    at_once: i64 = AT_ONCE if broker.settleable > AT_ONCE else broker.settleable
    if at_once > 0:
        done = chore.work(at_once, broker.now)
        broker.settleable -= done
        broker.work.done += done
    if chore.has_more():
        broker.turns.chores.add(chore)
