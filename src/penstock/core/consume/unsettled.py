"""The unsettled deliveries of a session: any range of them can be settled, with one of the outcomes.

Deliveries get consecutive numbers and are stored as batches in the order of the numbers. Settling a range from the
front removes whole batches, so settling a hundred messages costs little more than settling one delivery. A range that
begins later leaves gaps in its batches until all before it is settled.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.consumer import READY, Batch, Consumer
from penstock.core.consume.outcome import AddedHeaders, Outcome, add_headers, exclude, is_rejection, settle_batch
from penstock.core.deaths import REJECTED
from penstock.core.message import Message
from penstock.core.queue.deferred_free import FREED_A_UNIT, RELEASED_A_UNIT
from penstock.core.queue.queue import Queue
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER
from penstock.flow.work import AT_ONCE, Chore

ACCEPTED_A_UNIT: Final = 8
"""Batches accepted with one unit of work."""
BATCHES_AT_ONCE: Final = 4096
"""Batches that one acknowledgement accepts at once: a million messages, unless batches are very small."""


class BatchRange:
    """A part of a list of batches."""

    __slots__ = ("batches", "at", "end")

    def __init__(self, batches: list[Batch], at: i64, end: i64) -> None:
        self.batches = batches
        self.at: i64 = at
        """Index of the next batch."""
        self.end: i64 = end


class BulkAcceptance(Chore):
    """The rest of an acknowledgement of very many deliveries, which the session has handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted: deque[tuple[Queue, list[Message | None]]] = deque()
        """Messages that have left the depth of their queue and are still to be released and freed."""
        self.batches: deque[BatchRange] = deque()
        """Deliveries that still count as unacknowledged."""

    @override
    def has_more(self) -> bool:
        return len(self.accepted) > 0 or len(self.batches) > 0

    @override
    def work(self, most: i64, now: float) -> i64:
        spent: i64 = 0
        while spent < most and self.has_more():
            if self.accepted:
                queue, messages = self.accepted.popleft()
                if queue.tracks_removals:
                    queue.accept(messages, now)
                    spent += len(messages) // RELEASED_A_UNIT + 1
                else:
                    spent += len(messages) // FREED_A_UNIT + 1
                continue
            part = self.batches[0]
            _accept_batch(part.batches[part.at], now, self)
            part.at += 1
            if part.at == part.end:
                self.batches.popleft()
        return spent


class UnsettledDeliveries:
    """The ledger of one session."""

    def __init__(self) -> None:
        self.next_number: i64 = 1
        """Number of the next delivery (the tag in AMQP 0-9-1), whether settled at once or not."""
        self.added: i64 = 0
        """Number of deliveries that the client is to settle."""
        self.unaccepted: i64 = 0
        """Number of these deliveries that were settled otherwise than accepted, or not by the client."""
        self._batches: list[Batch] = []
        self._front: i64 = 0
        """Index of the first batch in use; earlier ones are settled."""

    def add(self, batch: Batch) -> None:
        """Add deliveries with the next numbers."""
        self._batches.append(batch)
        self.added += batch.left

    # Queries

    def is_empty(self) -> bool:
        """Return whether no delivery is unsettled."""
        return self._front == len(self._batches)

    def count(self) -> int:
        """Return the number of unsettled deliveries."""
        left: i64 = 0
        for batch in self._batches[self._front :]:
            left += batch.left
        return int(left)

    def accepted(self) -> i64:
        """Return the number of deliveries that were acknowledged (accepted)."""
        return self.added - self.unaccepted - i64(self.count())

    def last_number(self) -> i64:
        """Return the number of the last delivery; 0 before the first one."""
        return self.next_number - 1

    def span(self, first: i64, last: i64) -> i64:
        """Return an upper bound of the unsettled deliveries with the numbers first..last."""
        if self._front == len(self._batches):
            return 0
        front = self._batches[self._front].first
        begin = first if first > front else front
        end = last if last < self.next_number else self.next_number - 1
        return end - begin + 1 if end >= begin else 0

    def is_front(self, first: i64) -> bool:
        """Return whether no unsettled delivery comes before this number."""
        return self._front == len(self._batches) or first <= self._batches[self._front].first

    def front_number(self) -> i64:
        """Return a number before which every delivery is settled."""
        return self.next_number if self._front == len(self._batches) else self._batches[self._front].first

    def batch_count(self) -> i64:
        """Return the number of batches that a full search visits."""
        return len(self._batches) - self._front

    def batches(self) -> list[Batch]:
        """Return the batches with unsettled deliveries, oldest first."""
        return self._batches[self._front :]

    def first_due(self) -> tuple[float, float, Consumer | None]:
        """Return when the first unsettled delivery times out, its timeout, in seconds, and its consumer.

        Infinity and None if no delivery ever does.
        """
        first, allowed_s = NEVER, NEVER
        consumer: Consumer | None = None
        for batch in self._batches[self._front :]:
            timeout_s = batch.consumer.timeout_s()
            if batch.left and batch.at + timeout_s < first:
                first, allowed_s, consumer = batch.at + timeout_s, timeout_s, batch.consumer
        return first, allowed_s, consumer

    def deliveries(self, first: i64, last: i64, most: i64 = UNLIMITED) -> list[tuple[int, Queue, Message]]:
        """Return the first `most` unsettled deliveries with the numbers first..last: number, queue, message."""
        deliveries: list[tuple[int, Queue, Message]] = []
        batches = self._batches
        at = self._index(first)
        while at < len(batches) and batches[at].first <= last:
            batch = batches[at]
            number = first if first > batch.first else batch.first
            end = last if last < batch.last() else batch.last()
            while number <= end:
                message = batch.messages[number - batch.first]
                if message is not None:
                    if len(deliveries) >= most:
                        return deliveries
                    deliveries.append((int(number), batch.consumer.queue, message))
                number += 1
            at += 1
        return deliveries

    def consumers_of(self, first: i64, last: i64) -> list[Consumer]:
        """Return the consumers with unsettled deliveries in batches that have any of the numbers first..last."""
        found: dict[Consumer, None] = {}
        at = self._index(first)
        while at < len(self._batches) and self._batches[at].first <= last:
            batch = self._batches[at]
            if batch.left > 0 and batch.last() >= first:
                found[batch.consumer] = None
            at += 1
        return list(found)

    def numbers_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        """Return the numbers of a consumer's unsettled deliveries as ranges; settled deliveries of others may lie
        inside.
        """
        ranges: list[tuple[int, int]] = []
        for batch in self._batches[self._front :]:
            if batch.consumer is consumer and batch.left > 0:
                ranges.append((int(batch.first), int(batch.last())))
        return ranges

    # Settling by numbers

    def settle(
        self, first: i64, last: i64, outcome: Outcome, now: float, added: AddedHeaders | None = None
    ) -> list[Queue]:
        """Settle the unsettled deliveries with the numbers first..last at once; other numbers are ignored.

        Returns the queues with requeued messages. For very many deliveries call `settle_in_slices`.
        """
        touched: list[Queue] = []
        if first == last:
            batch = self._batch_of(first)
            if batch is not None:
                self._settle_one(batch, first - batch.first, outcome, touched, now, added)
        elif outcome is Outcome.ACCEPTED and self.is_front(first):
            self.accept_front(last, now, UNLIMITED)
        else:
            for batch in self.detach(first, last):
                if outcome is Outcome.ACCEPTED:
                    self.unaccepted -= batch.left
                settle_batch(batch, outcome, now, added)
                queue = batch.consumer.queue
                if outcome is not Outcome.ACCEPTED and not is_rejection(outcome, queue) and queue not in touched:
                    touched.append(queue)
        return touched

    def detach(self, first: i64, last: i64) -> list[Batch]:
        """Detach the deliveries with the numbers first..last from the session, and return them.

        For the consumers the deliveries are settled; the caller settles them in the queues (`settle_batch`). Until then
        they count as not accepted.
        """
        detached: list[Batch] = []
        batches = self._batches
        at = self._index(first)
        while at < len(batches) and batches[at].first <= last:
            part = self._cut(at, first, last)
            if part.left > 0:
                _count_out(part.consumer, part.left, part.charge)
                part.consumer.queue.unacked(part.left, part.charge)
                self.unaccepted += part.left
                detached.append(part)
            at += 1
        self._advance_over_settled()
        return detached

    def detach_of(self, consumer: Consumer) -> list[Batch]:
        """Detach the unsettled deliveries of a consumer, and return them, oldest first; see `detach`."""
        detached: list[Batch] = []
        self.detach_into({consumer: detached})
        return detached

    def detach_into(self, wanted: dict[Consumer, list[Batch]]) -> None:
        """Detach the unsettled deliveries of several consumers into their lists, in one pass; see `detach`."""
        batches = self._batches
        at = self._front
        while at < len(batches):
            batch = batches[at]
            consumer = batch.consumer
            if batch.left > 0 and consumer in wanted:
                batches[at] = Batch(consumer, batch.first, [], 0, batch.at)
                _count_out(consumer, batch.left, batch.charge)
                consumer.queue.unacked(batch.left, batch.charge)
                self.unaccepted += batch.left
                wanted[consumer].append(batch)
            at += 1
        self._advance_over_settled()

    def hand_over(self) -> list[Batch]:
        """Close the session: remove and return all unsettled deliveries, oldest first. Its credit is not restored."""
        self.unaccepted += self.count()
        batches = self._batches
        del batches[: self._front]
        self._batches = []
        self._front = 0
        return batches

    # Settling by delivery tags: the rules of AMQP 0-9-1

    def acknowledge(self, tag: i64, multiple: bool, now: float) -> i64:
        """Accept one delivery, or all up to and including `tag` (0: all); returns the units of work for very many.

        Raises PreconditionFailed (406) for an unknown tag.
        """
        if multiple:
            return self.accept_front(self.upto(tag), now)
        batch = self._batch_of(tag)
        if batch is None:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        message = self._take_one(batch, tag - batch.first)
        queue = batch.consumer.queue
        if queue.tracks_removals:
            queue.accept([message], now)
        queue.settle(1, message.charge, now)
        return 0

    def settle_tag(self, tag: i64, multiple: bool, outcome: Outcome, now: float) -> list[Queue]:
        """Settle one delivery, or all up to and including `tag` (0: all); returns the queues with requeued messages.

        Raises PreconditionFailed (406) for an unknown tag.
        """
        if multiple:
            return self.settle(1, self.upto(tag), outcome, now)
        touched: list[Queue] = []
        batch = self._batch_of_tag(tag)
        self._settle_one(batch, tag - batch.first, outcome, touched, now)
        return touched

    def upto(self, tag: i64) -> i64:
        """Return the last number that a settlement of all up to and including `tag` (0: all) concerns.

        Raises PreconditionFailed (406) for an unknown tag, as RabbitMQ does, whatever else is unsettled.
        """
        if tag == 0:
            return self.next_number - 1
        self._batch_of_tag(tag)
        return tag

    # Batches

    def _index(self, number: i64) -> i64:
        """Return the index of the last batch that begins at this number or before; at least the front."""
        batches = self._batches
        low: i64 = self._front
        high: i64 = len(batches)
        while low < high:
            middle = (low + high) >> 1
            if batches[middle].first <= number:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low > self._front else low

    def _batch_of(self, number: i64) -> Batch | None:
        """Return the batch of an unsettled delivery, or None."""
        at = self._index(number)
        if at < len(self._batches):
            batch = self._batches[at]
            index = number - batch.first
            if 0 <= index < len(batch.messages) and batch.messages[index] is not None:
                return batch
        return None

    def _batch_of_tag(self, tag: i64) -> Batch:
        """Return the batch of an unsettled delivery. Raises PreconditionFailed (406) for an unknown tag."""
        batch = self._batch_of(tag)
        if batch is None:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        return batch

    def _take_one(self, batch: Batch, index: i64) -> Message:
        """Remove one delivery; for its consumer the delivery is settled."""
        message = batch.messages[index]
        assert message is not None
        batch.messages[index] = None
        batch.left -= 1
        batch.charge -= message.charge
        _count_out(batch.consumer, 1, message.charge)
        self._advance_over_settled()
        return message

    def _settle_one(
        self,
        batch: Batch,
        index: i64,
        outcome: Outcome,
        touched: list[Queue],
        now: float,
        added: AddedHeaders | None = None,
    ) -> None:
        message = self._take_one(batch, index)
        queue = batch.consumer.queue
        if outcome is Outcome.ACCEPTED:
            if queue.tracks_removals:
                queue.accept([message], now)
            queue.settle(1, message.charge, now)
            return
        self.unaccepted += 1
        if is_rejection(outcome, queue):
            queue.dead_letter(message, REJECTED, now, added)
        else:
            if outcome is Outcome.UNDELIVERABLE:
                exclude(batch.consumer, [message])
            if added is not None:
                add_headers(queue, message, added, now)
            queue.requeue(message, now, outcome is Outcome.FAILED)
            touched.append(queue)

    def accept_front(self, last: i64, now: float, most: i64 = BATCHES_AT_ONCE) -> i64:
        """Accept all deliveries up to a number; returns the units of work.

        More than `AT_ONCE` are released and freed in later turns, and deliveries beyond `most` batches leave the depth
        of their queues in later turns as well.
        """
        later: BulkAcceptance | None = None
        settled: i64 = 0
        accepted: i64 = 0
        while self._front < len(self._batches):
            batch = self._batches[self._front]
            if batch.first > last:
                break
            if batch.last() > last:
                self._accept_part(batch, last, now)
                return accepted // ACCEPTED_A_UNIT
            if settled > AT_ONCE:  # Freeing these messages takes longer than everything else.
                if later is None:
                    later = BulkAcceptance()
                    batch.consumer.queue.turns.chores.add(later)
                if accepted >= most:
                    self._accept_later(last, later)
                    continue
            settled += len(batch.messages)
            accepted += 1
            _accept_batch(batch, now, later)
            self._advance()
        self._advance_over_settled()
        return accepted // ACCEPTED_A_UNIT

    def _accept_later(self, last: i64, later: BulkAcceptance) -> None:
        """Move the batches that end at a number or before to the deliveries that are accepted in later turns."""
        batches = self._batches
        front = self._front
        end = self._index(last)
        if batches[end].last() <= last:
            end += 1
        if end - front <= len(batches) - end:  # The smaller part is copied.
            later.batches.append(BatchRange(batches[front:end], 0, end - front))
            self._front = end
            self._trim()
        else:
            later.batches.append(BatchRange(batches, front, end))
            self._batches = batches[end:]
            self._front = 0

    def _accept_part(self, batch: Batch, last: i64, now: float) -> None:
        messages = batch.messages
        size: i64 = len(messages)
        end = last - batch.first + 1
        # Count the smaller part: the accepted one, or the rest.
        rest = end > size - end
        index: i64 = 0
        stop: i64 = end
        if rest:
            index = end
            stop = size
        count: i64 = 0
        charge: i64 = 0
        while index < stop:
            message = messages[index]
            if message is not None:
                charge += message.charge
                count += 1
            index += 1
        if rest:
            count = batch.left - count
            charge = batch.charge - charge
        queue = batch.consumer.queue
        if queue.tracks_removals:
            queue.accept(messages[:end], now)
        # Cut the settled part off, so that the next acknowledgement does not scan the part again.
        del messages[:end]
        batch.first = last + 1
        batch.left -= count
        batch.charge -= charge
        _count_out(batch.consumer, count, charge)
        queue.settle(count, charge, now)
        self._advance_over_settled()

    def _cut(self, at: i64, first: i64, last: i64) -> Batch:
        """Cut off and return the deliveries first..last of a batch."""
        batch = self._batches[at]
        size: i64 = len(batch.messages)
        begin: i64 = 0
        if first > batch.first:
            begin = first - batch.first
        end = last - batch.first + 1
        if end >= size:
            end = size
            if begin == 0:
                self._batches[at] = Batch(batch.consumer, batch.first, [], 0, batch.at)
                return batch
        part = Batch(batch.consumer, batch.first + begin, batch.messages[begin:end], 0, batch.at)
        part.left = 0
        for message in part.messages:
            if message is not None:
                part.left += 1
                part.charge += message.charge
        if begin == 0:
            del batch.messages[:end]
            batch.first += end
        else:
            while begin < end:
                batch.messages[begin] = None
                begin += 1
        batch.left -= part.left
        batch.charge -= part.charge
        return part

    def _advance_over_settled(self) -> None:
        while self._front < len(self._batches) and self._batches[self._front].left == 0:
            self._advance()

    def _advance(self) -> None:
        """Skip a settled batch and drop its messages; trim the list when half of it is settled."""
        self._batches[self._front].messages.clear()
        self._front += 1
        self._trim()

    def _trim(self) -> None:
        if self._front >= 64 and self._front * 2 >= len(self._batches):
            del self._batches[: self._front]
            self._front = 0


def _accept_batch(batch: Batch, now: float, later: BulkAcceptance | None) -> None:
    """Accept a whole batch; its messages are released and freed at once, or in later turns."""
    _count_out(batch.consumer, batch.left, batch.charge)
    queue = batch.consumer.queue
    if later is not None:
        later.accepted.append((queue, batch.messages))
        batch.messages = []
    elif queue.tracks_removals:
        queue.accept(batch.messages, now)
    queue.settle(batch.left, batch.charge, now)
    batch.left = 0


def _count_out(consumer: Consumer, count: i64, charge: i64) -> None:
    """Restore the credit of settled deliveries."""
    consumer.credit.restore(count, charge)
    consumer.shared.restore(count, charge)
    consumer.queue.unacked(-count, -charge)
    if consumer.adaptive_window is not None:
        consumer.adaptive_window.settled(count)
    if consumer.state != READY or consumer.session.held > 0:
        consumer.session.on_credit_restored(consumer)
