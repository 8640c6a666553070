"""The consuming side of a session, such as a 0-9-1 channel: deliveries, acknowledgements, requeueing.

Deliveries get consecutive tags and are stored as batches in order of their tags. Settling a range removes whole batches
from the front, so acknowledging a hundred messages costs little more than acknowledging one.
"""

from __future__ import annotations

import bisect

from mypy_extensions import i64, mypyc_attr

from penstock.core.consume.bulk_requeue import BulkRequeue, finish_requeueing
from penstock.core.consume.consumer import BATCH_BYTES, BATCH_MESSAGES, Batch, Consumer
from penstock.core.consume.consumer_lists import ALONE, READY, UNFIT, WaitList
from penstock.core.consume.rotation import wake
from penstock.core.journal.redelivery_mark import record_delivery
from penstock.core.message import Message
from penstock.core.queue.deferred_free import DeferredFree
from penstock.core.queue.queue import Queue
from penstock.errors import PreconditionFailed
from penstock.flow.credit import Credit
from penstock.flow.timers import NEVER
from penstock.flow.work import AT_ONCE


class Outlet(WaitList):
    """Consumers that wait until more output of their connection may be sent."""

    def is_open(self) -> bool:
        """See `WaitList.is_open`."""
        return self.first is not None and self.first.session.receiving()


class _Line(WaitList):
    """Consumers that wait for credit of their session, or until it takes deliveries again."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    def is_open(self) -> bool:
        """See `WaitList.is_open`."""
        return self.session.credit.left() > 0 and not self.session.stopped()


@mypyc_attr(allow_interpreted_subclasses=True)
class Session:
    """The consuming side of a session; the publishing side is its Producer.

    A protocol fills in `receiving`, `stopped`, `why_not_receiving`, `deliver` and `on_cancelled`. The defaults are for
    a session without a client: its caller takes the batches itself.
    """

    def __init__(self, outlet: Outlet | None = None, name: str = "", connection_number: int = 0) -> None:
        self.name = name
        """Name for logs, such as "con:2(guest@127.0.0.1:1)/ch:1"; empty for a session without a client."""
        self.connection_number = connection_number
        """Number of its connection; 0 without one."""
        self.credit = Credit()
        """Prefetch shared by all consumers of the session (basic.qos with global=true)."""
        self.delivering: bool = True
        """False while the client has stopped its deliveries (channel.flow), and when it closes."""
        self.consumers: dict[str, Consumer] = {}
        self.line: WaitList = _Line(self)
        self.outlet: WaitList = Outlet() if outlet is None else outlet
        """The wait list of its consumers for room in the output."""
        self.held: i64 = 0
        """Number of its consumers that wait for shared credit, or for the byte window."""
        self.next_tag: i64 = 1
        self._batches: list[Batch] = []
        self.returning: BulkRequeue | None = None
        """The requeueing of its unsettled deliveries after it closed."""
        self._front: i64 = 0
        """Index of the first batch in use; earlier ones are settled."""

    def receiving(self) -> bool:
        """Return whether deliveries may be sent to this session now."""
        return self.delivering

    def stopped(self) -> bool:
        """Return whether the client has stopped deliveries; `receiving` is false then."""
        return not self.delivering

    def why_not_receiving(self) -> str:
        """Return the reason why deliveries are stopped, when `receiving` is false."""
        return "its connection does not take more"

    def deliver(self, batch: Batch) -> None:
        """Write a batch of deliveries to the client. Called by the driver, outside of changes of the core."""

    def on_cancelled(self, consumer: Consumer) -> None:
        """Notify the client that the broker has cancelled a consumer, which is no longer subscribed."""

    def take_batch(self, consumer: Consumer, room: i64, now: float) -> Batch:
        """Take the next batch of a consumer's queue, at most `room` messages; there is at least one."""
        queue = consumer.queue
        if room > BATCH_MESSAGES:
            room = BATCH_MESSAGES
        available = queue.available()
        if room > available:
            room = available
        messages: list[Message | None] = []
        charge: i64 = 0
        backlog = queue.ready_queue
        run = backlog.contiguous()
        left: i64 = len(run)
        weighs = consumer.has_byte_limit()
        while room > 0 and charge < BATCH_BYTES:
            if weighs and messages and not self._one_more(consumer, len(messages), charge):
                break
            if left == 0:
                run = backlog.contiguous()
                left = len(run)
            if left > 0:
                message = run.popleft()
                left -= 1
            else:
                message = backlog.pull()
            messages.append(message)
            charge += message.charge
            room -= 1
        batch = Batch(consumer, self.next_tag, messages, charge, now)
        if queue.length is not None:
            queue.length.on_delivered(messages)
        if queue.storage is not None:
            batch.waits_for_disk = record_delivery(queue.storage, messages)
        count = batch.left
        self.next_tag += count
        consumer.delivered += count
        if consumer.no_ack:
            if queue.tracks_removals:
                queue.release(messages, now)
            queue.settle(count, charge, now)
        else:
            consumer.credit.spend(count, charge)
            consumer.shared.spend(count, charge)
            queue.unacked(count, charge)
            self._batches.append(batch)
        return batch

    def _one_more(self, consumer: Consumer, messages: i64, bytes: i64) -> bool:
        oldest = consumer.queue.ready_queue.next()
        return oldest is not None and consumer.accepts(messages, bytes, oldest.charge)

    def get(self, queue: Queue, no_ack: bool, now: float) -> Batch | None:
        """Take one message without a subscription (basic.get); None if no message is ready."""
        finish_requeueing(queue, now)
        if not queue.available():
            return None
        consumer = Consumer("", self, queue, no_ack, False, 0)
        # A basic.get needs no credit and leaves that of the consumers unchanged (as RabbitMQ).
        consumer.shared = Credit()
        return self.take_batch(consumer, 1, now)

    # Settling

    def acknowledge(self, tag: i64, multiple: bool, now: float) -> None:
        """Settle one delivery, or all up to and including `tag` (0: all).

        Raises PreconditionFailed for an unknown tag.
        """
        if multiple:
            self._settle_range(self._upto(tag), now)
        else:
            batch, index = self._find(tag)
            message = batch.messages[index]
            assert message is not None
            self._settle_one(batch, index)
            queue = batch.consumer.queue
            if queue.tracks_removals:
                queue.release([message], now)
            queue.settle(1, message.charge, now)

    def reject(self, tag: i64, multiple: bool, now: float) -> None:
        """Reject deliveries without requeueing (nack, reject).

        Raises PreconditionFailed for an unknown tag.
        """
        if not multiple:
            batch, index = self._find(tag)
            self._reject_one(batch, index, now)
            return
        for number, _, _ in self.deliveries(1, self._upto(tag)):
            batch, index = self._find(number)
            self._reject_one(batch, index, now)

    def _reject_one(self, batch: Batch, index: int, now: float) -> None:
        message = batch.messages[index]
        assert message is not None
        self._settle_one(batch, index)
        batch.consumer.queue.reject(message, now)

    def requeue(self, tag: i64, multiple: bool, now: float) -> list[Queue]:
        """Requeue deliveries; returns the queues concerned."""
        touched: list[Queue] = []
        if multiple:
            last = self._upto(tag)
            while self._front < len(self._batches):
                batch = self._batches[self._front]
                if batch.first > last:
                    break
                self._requeue_batch(batch, last, touched, now)
                if batch.left:
                    break
                self._advance()
            self._advance_over_settled()
        else:
            batch, index = self._find(tag)
            self._requeue_one(batch, index, touched, now)
        return touched

    def span(self, tag: i64) -> i64:
        """Return an upper bound of the deliveries up to and including `tag` (0: all).

        Raises PreconditionFailed for an unknown tag.
        """
        last = self._upto(tag)
        return last - self._batches[self._front].first + 1 if self._front < len(self._batches) else 0

    def hand_over(self) -> list[Batch]:
        """Close the session: remove and return all unsettled deliveries, oldest first. Its credit is not restored."""
        batches = self._batches
        del batches[: self._front]
        self._batches = []
        self._front = 0
        return batches

    def detach(self, tag: i64) -> list[Batch]:
        """Detach all deliveries up to and including `tag` (0: all) from the session, and return them.

        For the consumers they are settled; the caller settles them in the queues.
        """
        last = self._upto(tag)
        found: list[Batch] = []
        while self._front < len(self._batches) and self._batches[self._front].first <= last:
            batch = self._batches[self._front]
            if batch.last() > last:
                found.append(_cut(batch, last))
            else:
                found.append(batch)
                self._batches[self._front] = Batch(batch.consumer, batch.first, [], 0, batch.at)
                self._advance()
            part = found[len(found) - 1]
            self._count_out(part.consumer, part.left, part.charge)
            part.consumer.queue.unacked(part.left, part.charge)
            if part is not batch:
                break
        self._advance_over_settled()
        return found

    def has_unsettled(self) -> bool:
        """Return whether any delivery is unsettled."""
        return self._front < len(self._batches)

    def unsettled(self) -> int:
        """Return the number of unsettled deliveries."""
        left: i64 = 0
        for batch in self._batches[self._front :]:
            left += batch.left
        return int(left)

    def first_due(self) -> tuple[float, float]:
        """Return when the first unsettled delivery times out (infinity for never), and its timeout in seconds."""
        first, allowed_s = NEVER, NEVER
        for batch in self._batches[self._front :]:
            timeout_s = batch.consumer.queue.settings.consumer_timeout_s
            if batch.left and batch.at + timeout_s < first:
                first, allowed_s = batch.at + timeout_s, timeout_s
        return first, allowed_s

    def deliveries(self, first: i64, last: i64) -> list[tuple[int, Queue, Message]]:
        """Return the unsettled deliveries with tags first..last, in order: tag, queue, message."""
        found: list[tuple[int, Queue, Message]] = []
        batches = self._batches
        at = bisect.bisect_right(batches, int(first), int(self._front), key=_first_tag) - 1
        if at < self._front:
            at = int(self._front)
        while at < len(batches) and batches[at].first <= last:
            batch = batches[at]
            tag = first if first > batch.first else batch.first
            end = last if last < batch.last() else batch.last()
            while tag <= end:
                message = batch.messages[tag - batch.first]
                if message is not None:
                    found.append((int(tag), batch.consumer.queue, message))
                tag += 1
            at += 1
        return found

    def _upto(self, tag: i64) -> i64:
        if tag == 0:
            return self.next_tag - 1
        self._find(tag)  # RabbitMQ refuses a multiple whose own tag is unknown, whatever else is unsettled.
        return tag

    def _settle_range(self, last: i64, now: float) -> None:
        batches = self._batches
        settled: i64 = 0
        leftovers: DeferredFree | None = None
        while self._front < len(batches):
            batch = batches[self._front]
            if batch.first > last:
                break
            if batch.last() > last:
                self._settle_part(batch, last, now)
                return
            self._count_out(batch.consumer, batch.left, batch.charge)
            queue = batch.consumer.queue
            if queue.tracks_removals:
                queue.release(batch.messages, now)
            queue.settle(batch.left, batch.charge, now)
            batch.left = 0
            settled += len(batch.messages)
            if settled > AT_ONCE:  # Freeing these takes longer than everything else.
                if leftovers is None:
                    leftovers = DeferredFree()
                    queue.turns.chores.add(leftovers)
                leftovers.batches.append(batch.messages)
                batch.messages = []
            self._advance()
        self._advance_over_settled()

    def _settle_part(self, batch: Batch, last: i64, now: float) -> None:
        messages = batch.messages
        count: i64 = 0
        charge: i64 = 0
        end = last - batch.first + 1
        index: i64 = 0
        while index < end:
            message = messages[index]
            if message is not None:
                charge += message.charge
                count += 1
            index += 1
        if batch.consumer.queue.tracks_removals:
            batch.consumer.queue.release(messages[:end], now)
        # Cut the settled part off, so that the next acknowledgement does not scan it again.
        del messages[:end]
        batch.first = last + 1
        batch.left -= count
        batch.charge -= charge
        self._count_out(batch.consumer, count, charge)
        batch.consumer.queue.settle(count, charge, now)
        self._advance_over_settled()

    def _count_out(self, consumer: Consumer, count: i64, charge: i64) -> None:
        consumer.credit.restore(count, charge)
        consumer.shared.restore(count, charge)
        consumer.queue.unacked(-count, -charge)
        if consumer.state != READY or self.held > 0:
            self._more_room(consumer)

    def _more_room(self, consumer: Consumer) -> None:
        """Wake the consumers that wait for the credit that a settlement restored."""
        if consumer.state == ALONE:
            wake(consumer)
        if self.held > 0:
            self.wake_waiting()

    def wake_waiting(self) -> None:
        """Wake the consumers that wait for credit of the session, after it changed."""
        if self.line.size > 0 and self.line.is_open():
            self.line.schedule_wake()
        if self.held > self.line.size:
            for consumer in self.consumers.values():
                if consumer.state == UNFIT:
                    wake(consumer)

    def _find(self, tag: i64) -> tuple[Batch, int]:
        """Return the batch and index of an unsettled delivery, by binary search over the batches' first tags."""
        batches = self._batches
        low: i64 = self._front
        high: i64 = len(batches)
        while low < high:
            middle = (low + high) >> 1
            if batches[middle].first <= tag:
                low = middle + 1
            else:
                high = middle
        if low > self._front:
            batch = batches[low - 1]
            index = tag - batch.first
            if index < len(batch.messages) and batch.messages[index] is not None:
                return batch, int(index)
        raise PreconditionFailed(f"unknown delivery tag {tag}")

    def _settle_one(self, batch: Batch, index: int) -> None:
        message = batch.messages[index]
        assert message is not None
        batch.messages[index] = None
        batch.left -= 1
        batch.charge -= message.charge
        self._count_out(batch.consumer, 1, message.charge)
        self._advance_over_settled()

    def _requeue_batch(self, batch: Batch, last: i64, touched: list[Queue], now: float) -> None:
        for index in range(len(batch.messages)):
            if batch.first + index <= last and batch.messages[index] is not None:
                message = batch.messages[index]
                assert message is not None
                batch.messages[index] = None
                batch.left -= 1
                batch.charge -= message.charge
                self._put_back(batch.consumer, message, touched, now)

    def _requeue_one(self, batch: Batch, index: int, touched: list[Queue], now: float) -> None:
        message = batch.messages[index]
        assert message is not None
        self._settle_one(batch, index)
        batch.consumer.queue.requeue(message, now)
        if batch.consumer.queue not in touched:
            touched.append(batch.consumer.queue)

    def _put_back(self, consumer: Consumer, message: Message, touched: list[Queue], now: float) -> None:
        self._count_out(consumer, 1, message.charge)
        consumer.queue.requeue(message, now)
        if consumer.queue not in touched:
            touched.append(consumer.queue)

    def _advance_over_settled(self) -> None:
        while self._front < len(self._batches) and self._batches[self._front].left == 0:
            self._advance()

    def _advance(self) -> None:
        """Skip a settled batch and drop its messages; trim the list when half of it is settled."""
        self._batches[self._front].messages.clear()
        self._front += 1
        if self._front >= 64 and self._front * 2 >= len(self._batches):
            del self._batches[: self._front]
            self._front = 0


def _cut(batch: Batch, last: i64) -> Batch:
    """Cut off and return the part of a batch with tags up to `last`."""
    end = last - batch.first + 1
    part = Batch(batch.consumer, batch.first, batch.messages[:end], 0, batch.at)
    part.left = 0
    for message in part.messages:
        if message is not None:
            part.left += 1
            part.charge += message.charge
    del batch.messages[:end]
    batch.first = last + 1
    batch.left -= part.left
    batch.charge -= part.charge
    return part


def _first_tag(batch: Batch) -> int:
    return int(batch.first)
