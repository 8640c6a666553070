"""Handlers of basic.*, confirm.*, tx.* and channel.flow: consuming, getting, settling, transactions and channel modes.

basic.get answers after a read from disk if the message is paged out. Publishes and settlements in a transaction wait
for its commit (AMQP 0-9-1 section 1.9; RabbitMQ's semantics).

A client that announces the capability `COMMIT_RETRY` may repeat a commit that was refused at the hold deadline. AMQP
0-9-1 has no answer for such a refusal. The client gets basic.return with the reason and without content, and basic.nack
with delivery tag 0, multiple: the whole commit is refused.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.scan import MessageFilter
from penstock.core.consume.session import settle_in_slices
from penstock.core.consume.stream_scan import StreamScan
from penstock.core.publish.unit_of_work import Transaction
from penstock.core.queue.cursor_state import reader_of
from penstock.core.queue.expiry import expire_slice, expire_steps
from penstock.core.queue.pager import PageLoadListener
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import ConsumerSettings
from penstock.core.queue.stream_queue import check_takes
from penstock.core.vhost import REPLY_TO
from penstock.errors import NotAllowed, NotImplementedHere, PreconditionFailed, ResourceError, ResourceLocked
from penstock.flow.credit import UNBOUNDED
from penstock.flow.gate import Refusal
from penstock.flow.work import Steps
from penstock.management import gate_lines
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091.channel import Channel
from penstock.protocols.amqp091.content_frames import write_u16
from penstock.protocols.amqp091.methods_topology import readable_queue
from penstock.protocols.amqp091.publishing import consume_replies, write_reason
from penstock.settings.read import read_consume_arguments, read_priority
from penstock.settings.stream_offset import OFFSET, read_offset
from penstock.settings.without_effect import in_consumer
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.fields import encode_shortstr


def nothing(channel: Channel, args: dict[str, object]) -> None:
    """Ignore a method that needs no answer and changes nothing."""


def channel_flow(channel: Channel, args: dict[str, object]) -> None:
    """Stop or resume deliveries on request of the client (section 1.5.2.3)."""
    active = arg.flag(args, "active")
    if active != channel.delivering:
        channel.connection.services.log(gate_lines.deliveries(channel.producer.name, active))
    channel.delivering = active
    if channel.delivering:
        channel.wake_waiting()
    channel.send(spec.CHANNEL_FLOW_OK, {"active": channel.delivering})


def qos(channel: Channel, args: dict[str, object]) -> None:
    """Set prefetch windows, in messages and bytes.

    RabbitMQ's meaning of `global`: false applies to each new consumer, true to the whole channel. A message larger than
    a window in bytes is delivered when no other message is unacknowledged.
    """
    count, size = arg.number(args, "prefetch_count"), arg.number(args, "prefetch_size")
    if arg.flag(args, "global"):
        channel.credit.window = count
        channel.credit.window_bytes = size or UNBOUNDED
        channel.wake_waiting()
    else:
        channel.prefetch = count
        channel.prefetch_bytes = size
        if channel.credit.bounded():
            channel.credit.window = 0  # RabbitMQ: a later consumer window replaces the channel's.
            channel.credit.window_bytes = UNBOUNDED
            channel.wake_waiting()
    channel.send(spec.BASIC_QOS_OK, {})


def consume(channel: Channel, args: dict[str, object]) -> None:
    """Subscribe (section 1.8.3.3)."""
    if arg.text(args, "queue") == REPLY_TO:
        consume_replies(channel, args)
        return
    queue = readable_queue(channel, args)
    channel.connection.services.deliver_first(queue)
    tag = arg.text(args, "consumer_tag") or channel.connection.services.make_name("amq.ctag")
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    arguments = arg.table(args, "arguments")
    settings = ConsumerSettings(queue.settings, read_consume_arguments(tag, arguments))
    no_ack, exclusive = arg.flag(args, "no_ack"), arg.flag(args, "exclusive")
    window_bytes = settings.narrower_window(channel.prefetch_bytes)
    priority = read_priority(tag, arguments)
    consumer = Consumer(tag, channel, queue, no_ack, exclusive, channel.prefetch, window_bytes, priority)
    consumer.arguments = arguments
    if queue.features.type.retains:
        scan_stream(channel, consumer, no_ack)
    channel.broker.consume(channel, consumer, settings)
    kind = queue.features.type
    steady = kind.name if queue.features.single_active and not kind.active_yields else ""
    for sentence in in_consumer(arguments, steady, kind.retains):
        channel.connection.services.log_without_effect(sentence)
    if len(channel.consumers) == 1:
        channel.engine.review_use()
    channel.reply(args, spec.BASIC_CONSUME_OK, {"consumer_tag": tag})


def scan_stream(channel: Channel, consumer: Consumer, no_ack: bool) -> None:
    """Set the scan of a consumer of a stream, with RabbitMQ's conditions: a prefetch, and acknowledgements.

    The priority of a consumer has no effect, because consumers of a stream do not compete.

    Raises PreconditionFailed (406), NotImplementedHere (540).
    """
    stream = f"stream queue '{consumer.queue.name}' in vhost '{consumer.queue.vhost}'"
    if consumer.prefetch == 0:
        raise PreconditionFailed(f"consumer prefetch count is not set for {stream}")
    if no_ack:
        raise NotImplementedHere(f"automatic acknowledgement not supported by {stream}")
    broker = channel.broker
    wall_now = broker.now + broker.wall_offset
    start = read_offset(f"consumer '{consumer.tag}'", OFFSET, consumer.arguments.get(OFFSET), wall_now)
    consumer.priority = 0
    format = broker.formats.by_octet(spec.FRAME_HEADER)
    consumer.scan = StreamScan(consumer, MessageFilter(broker.formats), broker, start, format)


def cancel(channel: Channel, args: dict[str, object]) -> None:
    """Unsubscribe; unacknowledged deliveries stay with the channel (section 1.8.3.5)."""
    tag = arg.text(args, "consumer_tag")
    consumer = channel.consumers.get(tag)
    if consumer is not None:
        channel.connection.services.deliver_first(consumer.queue)
    channel.broker.cancel(channel, tag)
    channel.heads.pop(tag, None)
    if not channel.consumers:
        channel.engine.review_use()
    channel.reply(args, spec.BASIC_CANCEL_OK, {"consumer_tag": tag})


def ack(channel: Channel, args: dict[str, object]) -> None:
    """Acknowledge deliveries that the fast path of FrameReader did not handle (section 1.8.3.13)."""
    tag, multiple = arg.tag(args), arg.flag(args, "multiple")
    if channel.transaction is not None:
        channel.transaction.settle(tag, multiple, Outcome.ACCEPTED)
        return
    channel.broker.work.count(channel.unsettled.acknowledge(tag, multiple, channel.broker.now))


def nack(channel: Channel, args: dict[str, object]) -> None:
    """Reject deliveries, one or a range (RabbitMQ's extension)."""
    _refuse(channel, arg.tag(args), arg.flag(args, "multiple"), arg.flag(args, "requeue"))


def reject(channel: Channel, args: dict[str, object]) -> None:
    """Reject one delivery (section 1.8.3.14)."""
    _refuse(channel, arg.tag(args), False, arg.flag(args, "requeue"))


def _refuse(channel: Channel, tag: int, multiple: bool, requeue: bool) -> None:
    outcome = Outcome.FAILED if requeue else Outcome.REJECTED
    if channel.transaction is not None:
        channel.transaction.settle(tag, multiple, outcome)
    elif multiple:
        settle_in_slices(channel.broker, channel, 1, channel.unsettled.upto(tag), outcome)
    else:
        for queue in channel.unsettled.settle_tag(tag, False, outcome, channel.broker.now):
            channel.broker.schedule_delivery(queue)


def recover(channel: Channel, args: dict[str, object]) -> None:
    """Requeue all unacknowledged deliveries of the channel (section 1.8.3.16).

    Only with requeue=true, as in RabbitMQ (540 otherwise).
    """
    recover_async(channel, args)
    channel.send(spec.BASIC_RECOVER_OK, {})


def recover_async(channel: Channel, args: dict[str, object]) -> None:
    """Requeue as `recover`, without an answer (section 1.8.3.15)."""
    if not arg.flag(args, "requeue"):
        raise NotImplementedHere("requeue=false")
    if channel.transaction is not None:
        channel.transaction.recover()
        return
    settle_in_slices(channel.broker, channel, 1, channel.unsettled.last_number(), Outcome.FAILED)


def confirm_select(channel: Channel, args: dict[str, object]) -> None:
    """Enable publisher confirms on this channel (RabbitMQ's extension)."""
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    channel.producer.confirming = True
    channel.producer.prompt = channel.engine.profile.exact_flow
    channel.engine.review_use()
    channel.reply(args, spec.CONFIRM_SELECT_OK, {})


WAITING_MAX: Final = 10_000
"""Most basic.get requests per queue that may wait for a read from disk.

Clients that await each answer stay far below that.
"""


def get(channel: Channel, args: dict[str, object]) -> None:
    """Deliver one message without a subscription (section 1.8.3.10)."""
    queue = readable_queue(channel, args)
    check_takes(queue, "basic.get")
    if _is_left_to_cursors(queue):
        raise ResourceLocked(f"queue '{queue.name}' pages and is read by {reader_of(queue)}; delete the cursor first")
    if not channel.engine.has_asked:
        channel.engine.has_asked = True
        channel.engine.review_use()
    channel.connection.services.deliver_first(queue)
    no_ack = arg.flag(args, "no_ack")
    pages = queue.pager
    if pages is not None and not queue.available() and len(pages.waiters) >= WAITING_MAX:
        raise ResourceError(
            f"{WAITING_MAX:,} requests wait for messages of queue '{queue.name}' that are read back from the disk; "
            "try again later"
        )
    if expire_slice(channel.broker, queue):
        _get(channel, queue, no_ack)
    else:
        channel.connection.services.start_asking(_get_fresh(channel, queue, no_ack), channel.connection)


def _is_left_to_cursors(queue: Queue) -> bool:
    return len(queue.cursors) > 0 and queue.pager is not None


def _get_fresh(channel: Channel, queue: Queue, no_ack: bool) -> Steps[None]:
    """Answer when all expired messages at the front are removed, which may take many turns."""
    yield from expire_steps(channel.broker, queue)
    if channel.is_open():
        if queue.deleted or _is_left_to_cursors(queue):  # The channel may have closed since the request.
            channel.count_get_empty(queue)
            channel.send(spec.BASIC_GET_EMPTY, {})
        else:
            _get(channel, queue, no_ack)


def _get(channel: Channel, queue: Queue, no_ack: bool) -> None:
    channel.broker.touch_queue(queue)
    if not _answer(channel, queue, no_ack):
        channel.engine.reader.unanswered.add(int(channel.number), False)
        _Getting(channel, queue, no_ack).wait()


def _answer(channel: Channel, queue: Queue, no_ack: bool) -> bool:
    """Answer with a message, or that the queue is empty.

    Return False if the next message must first be read from disk.
    """
    batch = channel.get(queue, no_ack, channel.broker.now)
    if batch is None:
        held_by_groups = queue.grouping is not None and queue.available() > 0
        if not held_by_groups and queue.waiting() > queue.ready_queue.held_back():
            return False
        channel.count_get_empty(queue)
        channel.send(spec.BASIC_GET_EMPTY, {})
        return True
    if batch.left == 0:
        channel.fail(_unsendable(channel, queue))
        return True
    if not batch.consumer.no_ack:
        channel.await_settlement(batch)
    message = batch.messages[0]
    assert message is not None
    counted = channel.broker.formats.with_delivery_count(message) if queue.counts_returns() else message
    channel.send_content(_get_ok(channel, batch), counted.content)
    if batch.waits_for_disk:
        channel.connection.output.await_deliveries()
    return True


def _unsendable(channel: Channel, queue: Queue) -> PreconditionFailed:
    """Return the error for a next message that does not fit into the frames of a connection."""
    message = queue.ready_queue.next()
    why = "" if message is None else channel.passes_over(queue, message)
    return PreconditionFailed(
        f"the next message of queue '{queue.name}' in vhost '{queue.vhost}' cannot be sent: {why}; connect with a "
        "larger frame_max, or take the message over HTTP or AMQP 1.0"
    )


class _Getting(PageLoadListener):
    """basic.get request that waits for its message to be read from disk."""

    def __init__(self, channel: Channel, queue: Queue, no_ack: bool) -> None:
        self.channel = channel
        self.queue = queue
        self.no_ack = no_ack

    def wait(self) -> None:
        """Wait until the next page is in memory."""
        assert self.queue.pager is not None
        self.queue.pager.waiters.append(self)

    def on_loaded(self) -> None:
        """See `PageLoadListener.on_loaded`. Another consumer may have taken the message already."""
        if not self.channel.is_open():
            return
        if _answer(self.channel, self.queue, self.no_ack):
            if self.channel.is_open():
                self.channel.engine.reader.unanswered.remove(int(self.channel.number))
        else:
            self.wait()


def _get_ok(channel: Channel, batch: Batch) -> bytes:
    message = batch.messages[0]
    assert message is not None
    payload = BytesWriter()
    write_i16_be(payload, 60)
    write_i16_be(payload, 71)
    write_i64_be(payload, batch.first)
    payload.append(1 if message.redelivered else 0)
    payload.write(encode_shortstr(message.envelope.exchange))
    payload.write(encode_shortstr(message.envelope.routing_key))
    count = int(batch.consumer.queue.waiting())
    out = BytesWriter()
    out.append(1)
    write_u16(out, channel.number)
    size = len(payload) + 4
    out.write(int(size).to_bytes(4, "big"))
    out.write(payload.getvalue())
    write_i32_be(out, min(count, 0x7FFFFFFF))
    out.append(0xCE)
    return out.getvalue()


COMMIT_RETRY: Final = "penstock.tx_commit_retry"
"""Capability of a client that expects basic.nack as the answer to tx.commit, and then commits again or rolls back."""


class ChannelTransaction(Transaction):
    """Transactional mode of a channel, with the requests that are not answered yet."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel, channel.producer)
        self.coordinator.keeps_refused = channel.engine.capabilities.get(COMMIT_RETRY) is True
        self._answers: dict[int, int] = {}
        """Reply methods of unanswered requests, by request number: 1, 2, 3 ..."""
        self._outcomes: dict[int, Refusal | None] = {}
        """Outcomes of requests that are not answered yet, by request number; None is success."""
        self._asked: int = 0
        self._answered: int = 0

    def ask(self, channel: Channel, answer: int) -> None:
        """Number a request; `answer` is the reply method after success. Raises ResourceError (506) beyond a bound."""
        channel.engine.reader.unanswered.add(int(channel.number), bool(self.producer.outbox))
        self._asked += 1
        self._answers[self._asked] = answer

    def on_result(self, channel: Channel) -> None:
        """Answer finished commits and rollbacks, in order.

        A refused commit closes the channel and leaves later requests unanswered, unless the client may repeat it.
        """
        for outcome in self.producer.confirms.take():
            for number in range(int(outcome.first), int(outcome.last) + 1):
                self._outcomes[number] = outcome.refusal
        self.producer.confirms.forget_confirmed()  # The confirms answered commits.
        while self._answered + 1 in self._outcomes:
            refusal = self._outcomes[self._answered + 1]
            if refusal is not None and not self.coordinator.keeps_refused:
                return
            self._answered += 1
            del self._outcomes[self._answered]
            method = self._answers.pop(self._answered)
            channel.engine.reader.unanswered.remove(int(channel.number))
            if refusal is None:
                channel.send(method, {})
            else:
                write_reason(channel, refusal.describe())
                channel.send(spec.BASIC_NACK, {"delivery_tag": 0, "multiple": True})


def tx_select(channel: Channel, args: dict[str, object]) -> None:
    """Make the channel transactional for good; a repeated tx.select changes nothing (section 1.9.2.1)."""
    if channel.producer.confirming:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    channel.connection.services.deliver()
    if channel.transaction is None:
        channel.transaction = ChannelTransaction(channel)
        channel.ack_frame_size = 0
        channel.engine.review_use()
    channel.transaction.ask(channel, spec.TX_SELECT_OK)
    channel.transaction.answer()


def tx_commit(channel: Channel, args: dict[str, object]) -> None:
    """Commit the publishes and settlements since the last commit, all or none (section 1.9.2.3)."""
    transaction = _transaction(channel)
    channel.connection.services.deliver()
    transaction.ask(channel, spec.TX_COMMIT_OK)
    transaction.commit()


def tx_rollback(channel: Channel, args: dict[str, object]) -> None:
    """Roll back; deliveries stay unacknowledged and are not redelivered automatically (section 1.9.2.5)."""
    transaction = _transaction(channel)
    channel.connection.services.deliver()
    transaction.ask(channel, spec.TX_ROLLBACK_OK)
    transaction.rollback()


def _transaction(channel: Channel) -> ChannelTransaction:
    transaction = channel.transaction
    if transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return transaction
