"""Outgoing link: a consumer whose receiver is the peer, with its link credit (section 2.6.7).

A receiver may limit the messages that it takes, by the max-message-size of its attach (section 2.7.3). A larger message
stays in its queue, for other consumers. The link is detached with `amqp:link:message-size-exceeded`, so that its client
learns of the message. Earlier messages of the same batch are sent first.

The size of a delivery in bytes is known only when it is written. So a consumer of such a link takes its messages
unsettled, and with snd-settle-mode settled its deliveries are accepted as soon as they are written.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.bulk_requeue import settle_batches
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import cancel_drain, request_drain, settle_in_slices
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import CONSUMER_TIMEOUT, ConsumerSettings
from penstock.errors import ContentTooLarge, NotImplementedHere
from penstock.flow.credit import UNBOUNDED, LinkCredit
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER
from penstock.protocols.amqp10.delivery_writer import DeliveryWriter
from penstock.protocols.amqp10.link import SETTLED, Link, LinkEndings
from penstock.protocols.amqp10.resumption import Resumption, SuspendedReceiver
from penstock.protocols.amqp10.session import AmqpSession
from penstock.protocols.amqp10.suspended_links import Expiry
from penstock.settings.read import read_consume_arguments, read_priority
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.spec import UINT_MAX
from penstock.wire.amqp10.transfer import Flow
from penstock.wire.amqp10.values import UINT, ULONG, Symbol, Typed, serial_add

UNLIMITED_FROM: Final = 1 << 62
"""Bytes from which a limit means no limit: no message is that large."""
ADDED_OCTETS: Final = 4096
"""Most bytes that header and annotations of a delivery add to twice the charge of its message."""


def limit_of(attach: Composite) -> ReceiverLimit | None:
    """Return the limit of the receiver that attaches; None without a limit."""
    most = attach.number("max_message_size", 0)
    if 0 < most < UNLIMITED_FROM:
        return ReceiverLimit(most, attach.number("snd_settle_mode") == SETTLED)
    return None


class ReceiverLimit:
    """The limit of one outgoing link."""

    def __init__(self, most: i64, settles: bool) -> None:
        self._most: i64 = most
        """Bytes of the largest message."""
        self.settles: Final = settles
        """True if deliveries are sent settled."""

    def deliver(self, link: OutgoingLink, batch: Batch) -> None:
        """Write a batch up to the first message that is too large, and detach the link if that is the first message."""
        session = link.session
        fitting = self._fitting(session.writer, batch)
        if fitting == len(batch.messages):
            self._write(link, batch)
            return
        first, last = batch.first, batch.last()  # The batch shrinks as messages are settled.
        browses = batch.consumer.browses()
        if fitting > 0:
            self._write(link, Batch(batch.consumer, first, batch.messages[:fitting], 0, batch.at))
        if not browses:
            settle_batches(session.broker, session.unsettled.detach(first + fitting, last), Outcome.RELEASED)
        if fitting > 0 and not browses:
            link.credit.take_back(last + 1 - first - fitting)  # The next batch begins with the message.
            return
        link.detach(
            ContentTooLarge(
                f"queue '{batch.consumer.queue.name}' has a message that is larger than the {self._most} bytes that "
                f"link '{link.link_name}' takes"
            )
        )

    def _write(self, link: OutgoingLink, batch: Batch) -> None:
        session = link.session
        session.writer.write(link, batch)
        if self.settles and not batch.consumer.browses():
            settle_in_slices(session.broker, session, batch.first, batch.last(), Outcome.ACCEPTED)

    def _fitting(self, writer: DeliveryWriter, batch: Batch) -> i64:
        """Return the number of messages before the first message that is too large."""
        fitting: i64 = 0
        for message in batch.messages:
            if message is not None and 2 * message.charge + ADDED_OCTETS > self._most:
                if writer.octets_of(message) > self._most:
                    return fitting
            fitting += 1
        return fitting


PRIORITY: Final = "rabbitmq:priority"
"""Link property: the priority of the consumer (RabbitMQ 4)."""
EXCLUSIVE: Final = "exclusive"
"""Link property: true for the only consumer of its queue."""
TXN_ID: Final = Symbol("txn-id")
"""Property of a flow that asks for deliveries in a transaction (section 4.4.3)."""
SCANNED_A_UNIT: Final = 32
"""Batches of a session that are searched for batches of a link per unit of work."""


class OutgoingLink(Link):
    """A link whose receiver is the peer."""

    def __init__(self, session: AmqpSession, attach: Composite, queue: Queue, default_outcome: Outcome) -> None:
        super().__init__(session, attach)
        tag = self.link_name
        while tag in session.consumers:  # Links to /management may share a name: they are not stolen.
            tag += f"/{self.peer_handle}"
        self.limit: ReceiverLimit | None = limit_of(attach)
        """Limit of the receiver for the size of messages; None for none."""
        settled = attach.number("snd_settle_mode") == SETTLED
        self.consumer = Consumer(tag, session, queue, settled and self.limit is None, False, 0)
        self.credit = LinkCredit(0, queue.settings.consumer_window_bytes)
        self.consumer.credit = self.credit
        self.default_outcome = default_outcome
        self.tag_base: i64 = 0
        """Delivery-tag of a delivery less its number; a tag is a number of eight bytes."""
        self.expiry = Expiry(attach.inner("source"))
        self._drain = False
        """True if the last flow had `drain` set.

        Flows of the broker repeat it (section 2.7.4), because rhea and go-amqp wait for that.
        """
        self.resumption: Resumption | None = None
        """Deliveries taken over from a suspended link; None if there are none."""

    def apply_properties(self, properties: dict[str, object]) -> ConsumerSettings:
        """Apply the settings in the link's properties: window and rates, priority and exclusive use.

        Raises PreconditionFailed for an invalid value.
        """
        consumer = self.consumer
        settings = ConsumerSettings(consumer.queue.settings, read_consume_arguments(self.link_name, properties))
        self.credit.window_bytes = settings.window_bytes
        priority = properties.get(PRIORITY)
        if priority is not None:
            consumer.priority = read_priority(self.link_name, {"x-priority": priority})
        consumer.exclusive = properties.get(EXCLUSIVE) is True
        return settings

    def properties_in_force(self, settings: ConsumerSettings) -> dict[object, object]:
        """Return the effective settings of the subscribed consumer, as link properties; absent limits are left out.

        Windows of bytes are ulong and of messages uint, as those of senders; rates are messages a second. A timeout in
        milliseconds (ulong) is included if the link asked for its own.
        """
        properties: dict[object, object] = {}
        if settings.timeout_s != NEVER:
            properties[Symbol(CONSUMER_TIMEOUT)] = Typed(ULONG, round(self.consumer.timeout_s() * 1000))
        if settings.window_bytes != UNBOUNDED:
            properties[Symbol("consumer-window-bytes")] = Typed(ULONG, int(settings.window_bytes))
        if settings.max_rate > 0:
            properties[Symbol("consumer-max-rate")] = settings.max_rate
        if settings.slow_rate > 0:
            properties[Symbol("slow-consumer-rate")] = settings.slow_rate
            properties[Symbol("slow-consumer-period")] = settings.slow_period_s
            properties[Symbol("slow-consumer-policy")] = Symbol(settings.slow_policy)
        window = self.consumer.adaptive_window
        if window is not None:
            properties[Symbol("consumer-window-min")] = Typed(UINT, min(int(settings.window_least), UINT_MAX))
            if settings.window_most != UNLIMITED:
                properties[Symbol("consumer-window-max")] = Typed(UINT, min(int(settings.window_most), UINT_MAX))
            properties[Symbol("consumer-window-adaptive")] = True
        return properties

    def sends_settled(self) -> bool:
        """Return whether the link's deliveries are settled when they are sent."""
        return self.consumer.no_ack or (self.limit is not None and self.limit.settles)

    @override
    def on_flow(self, flow: Flow) -> None:
        session = self.session
        if flow.properties is not None and TXN_ID in flow.properties:
            raise NotImplementedHere("a flow with a txn-id: deliveries are not acquired in a transaction")
        if flow.link_credit != ABSENT:
            seen = 0 if flow.delivery_count == ABSENT else flow.delivery_count
            session.grant_credit(self.consumer, seen, flow.link_credit)
            if self.resumption is not None:
                self.resumption.send()
        self._drain = flow.drain
        if flow.drain:
            request_drain(self.consumer)
        else:
            cancel_drain(self.consumer)
            if flow.echo:
                self.request_flow()

    @override
    def deliver(self, batch: Batch) -> None:
        if self.limit is None:
            self.session.writer.write(self, batch)
        else:
            self.limit.deliver(self, batch)

    @override
    def on_drained(self) -> None:
        if self.session.writer.may_report_drained(self):
            self.write_flow()
            self.session.connection.request_flush()

    @override
    def write_flow(self) -> None:
        session = self.session
        waiting = session.writer.waiting(self)  # Waiting deliveries count as delivered, but the peer has not seen them.
        session.windows.write(
            session.connection.output.buffer,
            session.number,
            self.handle,
            serial_add(self.credit.delivery_count, -waiting),
            self.credit.granted + waiting,
            self.consumer.available(),
            self._drain,
        )

    @override
    def on_detach(self, closed: bool) -> None:
        session = self.session
        session.links.forget_receiver(self.consumer)
        incomplete = session.writer.forget(self)
        broker = session.broker
        broker.cancel(session, self.consumer.tag)
        if not closed and self.expiry.lasts_for_session() and self._is_resumable():
            self._leave_in_session(incomplete)
            return
        if not closed and self._is_suspended():
            settle_batches(broker, self._keep(self._waiting_resumed() + self.take_unsettled()), Outcome.RELEASED)
        settle_batches(broker, self._waiting_resumed(), self.default_outcome)
        settler = session.settler
        if settler.retired:  # Deliveries that a transaction has settled wait for its end.
            self._count_scan()
            for first, last in session.unsettled.numbers_of(self.consumer):
                for begin, end in settler.free_ranges(first, last, True, self.default_outcome):
                    settle_in_slices(broker, session, begin, end, self.default_outcome)
        else:
            settle_batches(broker, self._detach_deliveries(), self.default_outcome)

    @override
    def takes_at_end(self, graceful: bool) -> bool:
        session = self.session
        if self.credit.out == 0 or session.settler.retired:
            return False
        return self._is_suspended() or (graceful and self.default_outcome is not session.end_outcome)

    @override
    def on_session_ended(self, endings: LinkEndings) -> None:
        """Store the deliveries of a suspended link, or settle those that are not stored.

        The session settles deliveries that are still in it with the outcome of its end.
        """
        waiting = self._waiting_resumed()
        taken = endings.take(self.consumer)
        if self._is_suspended():
            self._number_by_tags(taken)
            endings.settle(self._keep(waiting + taken), Outcome.RELEASED)
        else:
            endings.settle(waiting, self.default_outcome)
            endings.settle(taken, self.default_outcome)

    def resume(self, attach: Composite) -> dict[str, object]:
        """Resume the suspended link of this name, if there is one; return the fields for the broker's attach."""
        suspended = self.session.endpoint.shared.suspended.take(self.key)
        unsettled = attach.mapping("unsettled")
        if not isinstance(suspended, SuspendedReceiver) or suspended.queue is not self.consumer.queue or not unsettled:
            if suspended is not None:
                suspended.release()
            return {}
        resumption = Resumption(self)
        resumption.begin(suspended, unsettled)
        self.resumption = resumption
        entries, incomplete = resumption.unsettled()
        return {"unsettled": entries, "incomplete_unsettled": incomplete}

    def _is_suspended(self) -> bool:
        """Return whether the link's deliveries are stored after its detach."""
        return self.expiry.suspends() and self._is_resumable() and not self.session.settler.retired

    def _is_resumable(self) -> bool:
        """Return whether deliveries may be sent again. A client of a stream attaches behind the last one instead."""
        queue = self.consumer.queue
        return not queue.deleted and not queue.features.type.retains

    def _leave_in_session(self, incomplete: i64) -> None:
        """Leave the deliveries in the session until it ends; the receiver has none from number `incomplete` on."""
        session = self.session
        remains = False
        self._count_scan()
        for first, last in session.unsettled.numbers_of(self.consumer):
            remains = remains or first < incomplete
            if last >= incomplete:
                begin = max(first, int(incomplete))
                for start, end in session.settler.free_ranges(begin, last, False):
                    settle_in_slices(session.broker, session, start, end, Outcome.RELEASED)
        waiting = self._waiting_resumed()
        if remains or waiting:
            settle_batches(session.broker, self._keep(waiting, self), Outcome.RELEASED)

    def _keep(self, batches: list[Batch], detached: OutgoingLink | None = None) -> list[Batch]:
        """Suspend the link if it has deliveries; return the deliveries beyond the bound."""
        if not batches and detached is None:
            return []
        session = self.session
        suspended = session.endpoint.shared.suspended
        receiver = SuspendedReceiver(suspended, self.key, self.expiry, self.consumer, self.next_tag())
        receiver.detached = detached
        rest = receiver.keep(batches)
        suspended.suspend(receiver, session, session.connection_number)
        return rest

    def _waiting_resumed(self) -> list[Batch]:
        """Take the messages of resumed deliveries that are not sent yet."""
        return [] if self.resumption is None else self.resumption.take()

    def take_unsettled(self) -> list[Batch]:
        """Take the unsettled messages of the link from its session; the number of each batch is its delivery-tag.

        While a transaction has settled some, all messages stay in the session.
        """
        if self.session.settler.retired:
            return []
        batches = self._detach_deliveries()
        self._number_by_tags(batches)
        return batches

    def _number_by_tags(self, batches: list[Batch]) -> None:
        """Give each batch the delivery-tag of its first message as its number."""
        resumption = self.resumption
        for batch in batches:
            batch.first = batch.first + self.tag_base if resumption is None else resumption.tag_of(batch.first)

    def _detach_deliveries(self) -> list[Batch]:
        """Take the unsettled messages of the link from its session."""
        if self.credit.out == 0:
            return []
        self._count_scan()
        return self.session.unsettled.detach_of(self.consumer)

    def _count_scan(self) -> None:
        """Count the search for the link's deliveries among those of the session."""
        self.session.broker.work.done += self.session.unsettled.batch_count() // SCANNED_A_UNIT

    @override
    def unlink(self) -> None:
        if self.resumption is not None:
            self.resumption.end()
            self.resumption = None

    def next_tag(self) -> i64:
        """Return a delivery-tag that is new to the link."""
        return self.session.unsettled.next_number + self.tag_base
