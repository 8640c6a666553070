"""The consuming side of a session, such as a 0-9-1 channel: its consumers, their credit and their deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.consume.bulk_requeue import BulkRequeue, finish_requeueing, settle_batches
from penstock.core.consume.consumer import (
    ALONE,
    BATCH_BYTES,
    BATCH_MESSAGES,
    LISTED,
    READY,
    UNFIT,
    UNMATCHED,
    YIELDING,
    Batch,
    Consumer,
    GroupTaker,
    WaitList,
)
from penstock.core.consume.outcome import ADDING_COST, AddedHeaders, Outcome
from penstock.core.consume.rotation import rotation_of, wake
from penstock.core.consume.unsendable import put_back_unsendable
from penstock.core.consume.unsettled import UnsettledDeliveries
from penstock.core.message import Message
from penstock.core.queue.context import QueueContext
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import hides_next
from penstock.core.queue.storage import record_delivery
from penstock.core.queue.sweeping import sweep
from penstock.errors import BrokerError
from penstock.flow.credit import Credit, LinkCredit
from penstock.flow.gate import Waiter
from penstock.flow.level import UNLIMITED
from penstock.flow.series import Series, Tally
from penstock.flow.work import AT_ONCE

SETTLING_COST: Final = 1
"""Units of work to settle at once a delivery whose message is requeued or dead-lettered."""


class Outlet(WaitList):
    """Consumers that wait until their connection may send more output."""

    @override
    def is_open(self) -> bool:
        return self.first is not None and self.first.session.receiving()


class _Line(WaitList):
    """Consumers that wait for credit of their session, or until the session accepts deliveries again."""

    @override
    def is_open(self) -> bool:
        if self.first is None:
            return False
        session = self.first.session
        return session.credit.left() > 0 and not session.stopped()


@mypyc_attr(allow_interpreted_subclasses=True)
class Session:
    """The consuming side of a session; the publishing side is its Producer.

    A protocol fills in `receiving`, `stopped`, `why_not_receiving`, `deliver` and `on_cancelled`. The defaults are for
    a session without a client: the caller takes batches directly.
    """

    def __init__(self, outlet: WaitList | None = None, name: str = "", connection_number: int = 0) -> None:
        self.name = name
        """Name for logs, such as "con:2(guest@127.0.0.1:1)/ch:1"; empty for a session without a client."""
        self.connection_number = connection_number
        """Number of the connection; 0 without one."""
        self.number: i64 = 0
        """Number of the session in its connection."""
        self.credit = Credit()
        """Prefetch shared by all consumers of the session (basic.qos with global=true)."""
        self.prefetch: i64 = 0
        """Window in messages of new consumers (basic.qos with global=false); 0 means no bound."""
        self.delivering: bool = True
        """False while the client has stopped deliveries (channel.flow), and when the session closes."""
        self.consumers: dict[str, Consumer] = {}
        self.line: WaitList = _Line()
        self.outlet: WaitList = Outlet() if outlet is None else outlet
        """Wait list of the session's consumers for room in the output."""
        self.held: i64 = 0
        """Number of the session's consumers that wait for shared credit, or for the byte window."""
        self.unsettled = UnsettledDeliveries()
        self.tally = Tally()
        """Counts off the hot path, and counts of publishers that ended; see core/publish/session_counts.py."""
        self.counted: Tally | None = None
        """Counts that the closing connection has taken over; None otherwise."""
        self.series: Series | None = None
        """Samples of the session; None before its first message."""
        self.sure_charge: i64 = UNLIMITED
        """Charge up to which a message can always be sent to the client; see `passes_over`."""
        self.end_outcome: Outcome = Outcome.FAILED
        """Outcome of deliveries that are unsettled when the session ends: FAILED or RELEASED."""
        self.returning: BulkRequeue | None = None
        """Requeueing of the unsettled deliveries after the session closed."""

    def receiving(self) -> bool:
        """Return whether deliveries may be sent to this session now."""
        return self.delivering

    def stopped(self) -> bool:
        """Return whether the client has stopped deliveries; `receiving` is false then."""
        return not self.delivering

    def why_not_receiving(self) -> str:
        """Return the reason why deliveries are stopped, when `receiving` is false."""
        return "its connection does not take more"

    def limit_frames(self, sure_charge: i64) -> None:
        """Set the charge above which `passes_over` is asked for each message."""
        self.sure_charge = sure_charge

    def passes_over(self, queue: Queue, message: Message) -> str:
        """Return why a message with more than `sure_charge` cannot be sent to the client, as a clause; "" if it can."""
        return ""

    def deliver(self, batch: Batch) -> None:
        """Write a batch of deliveries to the client. Called by the driver, outside of changes of the core."""

    def on_drained(self, consumer: Consumer, credit: i64) -> None:
        """Notify the client that a requested drain of a consumer is done, with the removed credit.

        Called with the effects of a turn, after all deliveries of that turn.
        """

    def on_cancelled(self, consumer: Consumer, reason: BrokerError) -> None:
        """Notify the client that the broker has cancelled a consumer, which is no longer subscribed."""

    def in_transaction(self) -> bool:
        """Return whether publishes or settlements of the session wait for a commit."""
        return False

    def producers(self) -> Sequence[Waiter]:
        """Return the publishing side of the session: its producers (see `producers_of`)."""
        return []

    def fail(self, error: BrokerError) -> None:
        """Close the session, or the link or channel that the error concerns, and send the client the reason."""

    def on_torn_down(self) -> None:
        """Handle the end of the teardown: deliveries are requeued, and consumers are removed."""

    def unlink(self) -> None:
        """Cut references between the session's parts, after the teardown, when its last effects are dispatched."""

    def take_batch(self, consumer: Consumer, room: i64, now: float) -> Batch:
        """Take the next batch of a consumer's queue, at most `room` messages; at least one message is ready.

        The batch is empty if none of the messages can be sent; the consumer passes them over then.
        """
        queue = consumer.queue
        if room > BATCH_MESSAGES:
            room = BATCH_MESSAGES
        available = queue.available()
        if room > available:
            room = available
        messages: list[Message | None] = []
        charge: i64 = 0
        largest: i64 = 0
        backlog = queue.ready_queue
        run = backlog.contiguous()
        left: i64 = len(run)
        popleft = run.popleft  # A lookup for each message would cost as much as the call.
        weighs = consumer.has_byte_limit()
        while room > 0 and charge < BATCH_BYTES:
            if weighs and messages and not self._one_more(consumer, len(messages), charge):
                break
            if left == 0:
                run = backlog.contiguous()
                left = len(run)
                popleft = run.popleft
            if left > 0:
                message = popleft()
                left -= 1
            else:
                message = backlog.pull()
            messages.append(message)
            size = message.charge
            charge += size
            if size > largest:
                largest = size
            room -= 1
        if largest > self.sure_charge:
            charge = put_back_unsendable(consumer, messages, charge)
            if not messages:
                return Batch(consumer, self.unsettled.next_number, messages, 0, now)
        return self.hand_out(consumer, messages, charge, now)

    def hand_out(self, consumer: Consumer, messages: list[Message | None], charge: i64, now: float) -> Batch:
        """Count messages that were taken from a consumer's queue as its deliveries; returns their batch."""
        queue = consumer.queue
        unsettled = self.unsettled
        batch = Batch(consumer, unsettled.next_number, messages, charge, now)
        if queue.ready_queue.has_expiring():
            sweep(queue)
        if queue.length is not None:
            queue.length.on_delivered(messages)
        if queue.storage is not None:
            batch.waits_for_disk = record_delivery(queue.storage, messages)
        count = batch.left
        unsettled.next_number += count
        consumer.delivered += count
        counters = queue.counters
        counters.count_delivered(count, charge)
        if counters.returned > 0:
            self.tally.redeliver += counters.count_redelivered(queue, messages)
        consumer.credit.spend(count, charge)
        if consumer.no_ack:
            self.tally.deliver_no_ack += count
            counters.own().delivered_no_ack += count
            consumer.credit.restore(count, charge)
            if queue.tracks_removals:
                queue.accept(messages, now)
            queue.settle(count, charge, now)
        else:
            consumer.shared.spend(count, charge)
            queue.unacked(count, charge)
            unsettled.add(batch)
        return batch

    def hand_out_copies(self, consumer: Consumer, messages: list[Message | None], charge: i64, now: float) -> Batch:
        """Count copies of messages as deliveries of a browser; returns their batch.

        Copies are settled from the beginning: their delivery numbers are not recorded, and the queue does not track
        them.
        """
        unsettled = self.unsettled
        batch = Batch(consumer, unsettled.next_number, messages, charge, now)
        unsettled.next_number += batch.left
        consumer.delivered += batch.left
        consumer.credit.spend(batch.left, charge)
        consumer.credit.restore(batch.left, charge)
        return batch

    def lend_copies(self, consumer: Consumer, messages: list[Message | None], charge: i64, now: float) -> Batch:
        """Count copies of a stream's messages as deliveries; returns their batch.

        The session does not hold the copies, whose settlement only restores credit: placeholders without content have
        their charges.
        """
        queue = consumer.queue
        unsettled = self.unsettled
        batch = Batch(consumer, unsettled.next_number, messages, charge, now)
        count = batch.left
        unsettled.next_number += count
        consumer.delivered += count
        queue.counters.count_delivered(count, charge)
        consumer.credit.spend(count, charge)
        if consumer.no_ack:
            self.tally.deliver_no_ack += count
            queue.counters.own().delivered_no_ack += count
            consumer.credit.restore(count, charge)
        else:
            consumer.shared.spend(count, charge)
            queue.unacked(count, charge)
            unsettled.add(Batch(consumer, batch.first, _placeholders(messages, charge, now), charge, now))
        return batch

    def _one_more(self, consumer: Consumer, messages: i64, bytes: i64) -> bool:
        oldest = consumer.queue.ready_queue.next()
        return oldest is not None and consumer.accepts(messages, bytes, oldest.charge)

    def get(self, queue: Queue, no_ack: bool, now: float, getter: Consumer | None = None) -> Batch | None:
        """Take one message without a subscription (basic.get); None if no message is ready.

        The batch is empty if the next message cannot be sent. A message of a group that another consumer holds is not
        taken. `getter`: the consumer of `getter_of` that holds the groups of several messages.
        """
        finish_requeueing(queue, now)
        if not queue.available() or hides_next(queue):
            return None
        consumer = self.getter_of(queue, no_ack) if getter is None else getter
        groups = queue.grouping
        if isinstance(groups, GroupTaker) and not queue.cursors:
            batch = groups.take_one(consumer, now)
            if batch is None:
                return None
        else:
            batch = self.take_batch(consumer, 1, now)
        if batch.left == 0:
            return batch
        queue.counters.count_get(no_ack)
        if no_ack:
            self.tally.deliver_no_ack -= 1
            self.tally.get_no_ack += 1
        else:
            self.tally.get += 1
        return batch

    def getter_of(self, queue: Queue, no_ack: bool) -> Consumer:
        """Return the consumer of a basic.get, without a subscription."""
        consumer = Consumer("", self, queue, no_ack, False, 0)
        # A basic.get needs no credit and does not change the credit of consumers (as in RabbitMQ).
        consumer.shared = Credit()
        return consumer

    def count_get_empty(self, queue: Queue) -> None:
        """Count an answer to basic.get without a message."""
        self.tally.get_empty += 1
        queue.counters.own().gets_empty += 1

    def grant_credit(self, consumer: Consumer, delivery_count: i64, link_credit: i64) -> None:
        """Grant link credit to a consumer, as its receiver requests; see `LinkCredit.grant`."""
        credit = consumer.credit
        assert isinstance(credit, LinkCredit)
        credit.grant(delivery_count, link_credit)
        if consumer.state == ALONE:
            wake(consumer)

    def on_credit_restored(self, consumer: Consumer) -> None:
        """Wake the consumers that wait for the credit that a settlement of this consumer's deliveries restored."""
        if consumer.state == ALONE or consumer.state == YIELDING:
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


def _placeholders(messages: list[Message | None], charge: i64, now: float) -> list[Message | None]:
    """Return messages without content in place of others, with the same sum of charges."""
    count: i64 = len(messages)
    first = messages[0]
    assert first is not None
    share = charge // count
    every: Message | None = Message(first.envelope, b"", share, first.sequence, now)
    rest: Message | None = Message(first.envelope, b"", charge - share * (count - 1), first.sequence, now)
    line = [every] * int(count)
    line[0] = rest
    return line


def request_drain(consumer: Consumer) -> None:
    """Remove the credit of a subscribed consumer as soon as it is drained, after the deliveries of this turn.

    `Session.on_drained` is called once then, also if the deliveries have used up the credit.
    """
    rotation = rotation_of(consumer.queue)
    if rotation is not None and consumer.broker is not None:
        rotation.draining[consumer] = None
        if consumer.adaptive_window is not None:
            consumer.adaptive_window.lift(True)
        consumer.broker.schedule_delivery(consumer.queue)


def cancel_drain(consumer: Consumer) -> None:
    """Withdraw a drain request: the receiver sent `drain=false`."""
    rotation = rotation_of(consumer.queue)
    if rotation is not None:
        rotation.draining.pop(consumer, None)
    _end_lift(consumer)


def drained_consumers(queue: Queue) -> list[tuple[Consumer, int]]:
    """Return the drained consumers of a queue, each with its removed credit."""
    rotation = rotation_of(queue)
    if rotation is None:
        return []
    drained: list[tuple[Consumer, int]] = []
    for consumer in list(rotation.draining):
        if is_drained(consumer):
            del rotation.draining[consumer]
            _end_lift(consumer)
            credit = consumer.credit
            drained.append((consumer, int(credit.drain()) if isinstance(credit, LinkCredit) else 0))
    return drained


def _end_lift(consumer: Consumer) -> None:
    if consumer.adaptive_window is not None:
        consumer.adaptive_window.lift(False)


def is_drained(consumer: Consumer) -> bool:
    """Return whether no message can be delivered to a consumer without an event from outside."""
    queue = consumer.queue
    credit = consumer.credit
    if credit.left() == 0:
        return not (isinstance(credit, LinkCredit) and credit.paused)
    if queue.scheduled or queue.returning is not None or queue.reserved.holds_deliveries():
        return False
    scan = consumer.scan
    if scan is not None:
        # A selector may have missed messages of a now empty queue that other consumers have taken.
        if (
            consumer.state == UNMATCHED
            or not scan.has_more()
            or (not scan.copies and not scan.lends and queue.available() == 0)
        ):
            return not scan.is_reading()
    elif queue.available() == 0:
        return queue.pager is None or queue.pager.messages == 0
    if consumer.state == ALONE and consumer.rate_limiter is not None:
        return False  # The consumer waits for its rate, whose next token needs no event.
    return consumer.state != LISTED and consumer.state != READY


def settle_in_slices(
    broker: QueueContext,
    session: Session,
    first: i64,
    last: i64,
    outcome: Outcome,
    added: AddedHeaders | None = None,
) -> None:
    """Settle the unsettled deliveries with the numbers first..last; many are settled in later turns."""
    unsettled = session.unsettled
    at_once: i64 = AT_ONCE if added is None else AT_ONCE // ADDING_COST
    count = unsettled.span(first, last)
    if outcome is Outcome.ACCEPTED and first < last and unsettled.is_front(first):
        broker.work.count(unsettled.accept_front(last, broker.now))
        return
    if count <= at_once:
        if outcome is not Outcome.ACCEPTED:
            broker.work.count(count * (SETTLING_COST if added is None else ADDING_COST))
        for queue in unsettled.settle(first, last, outcome, broker.now, added):
            broker.schedule_delivery(queue)
        return
    settle_batches(broker, unsettled.detach(first, last), outcome, added)
