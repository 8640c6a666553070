"""Handlers of basic.*, confirm.* and channel.flow: consuming, settling and channel modes."""

from __future__ import annotations

from penstock.core.consume.bulk_requeue import settle_in_slices
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.queue.queue_settings import ConsumerSettings
from penstock.core.vhost import REPLY_TO
from penstock.errors import NotAllowed, NotImplementedHere, PreconditionFailed
from penstock.flow.credit import UNBOUNDED
from penstock.management import log_messages
from penstock.protocols.amqp091 import direct_reply_to
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091.channel import Channel
from penstock.protocols.amqp091.methods_topology import readable_queue
from penstock.settings.features import read_priority
from penstock.settings.read import read_consume_arguments
from penstock.wire.amqp091 import spec


def nothing(channel: Channel, args: dict[str, object]) -> None:
    """Ignore a method that needs no answer and changes nothing."""


def channel_flow(channel: Channel, args: dict[str, object]) -> None:
    """Stop or resume deliveries on request of the client (section 1.5.2.3)."""
    active = arg.flag(args, "active")
    if active != channel.delivering:
        channel.connection.services.log(log_messages.deliveries(channel.producer.name, active))
    channel.delivering = active
    if channel.delivering:
        channel.wake_waiting()
    channel.send(spec.CHANNEL_FLOW_OK, {"active": channel.delivering})


def qos(channel: Channel, args: dict[str, object]) -> None:
    """Set prefetch windows, in messages and bytes.

    RabbitMQ's meaning of `global`: false applies to each new consumer, true to the whole channel. A message larger than
    a window in bytes is delivered when no other is unacknowledged.
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
            channel.credit.window = 0  # RabbitMQ: a consumer window set later replaces that of the channel.
            channel.credit.window_bytes = UNBOUNDED
            channel.wake_waiting()
    channel.send(spec.BASIC_QOS_OK, {})


def consume(channel: Channel, args: dict[str, object]) -> None:
    """Subscribe (section 1.8.3.3)."""
    if arg.text(args, "queue") == REPLY_TO:
        direct_reply_to.consume(channel, args)
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
    channel.broker.consume(channel, consumer, settings)
    if len(channel.consumers) == 1:
        channel.connection.review_hold_bound()
    channel.reply(args, spec.BASIC_CONSUME_OK, {"consumer_tag": tag})


def cancel(channel: Channel, args: dict[str, object]) -> None:
    """Unsubscribe; unacknowledged deliveries stay with the channel (section 1.8.3.5)."""
    tag = arg.text(args, "consumer_tag")
    consumer = channel.consumers.get(tag)
    if consumer is not None:
        channel.connection.services.deliver_first(consumer.queue)
    channel.broker.cancel(channel, tag)
    channel.heads.pop(tag, None)
    if not channel.consumers:
        channel.connection.review_hold_bound()
    channel.reply(args, spec.BASIC_CANCEL_OK, {"consumer_tag": tag})


def ack(channel: Channel, args: dict[str, object]) -> None:
    """Acknowledge deliveries that the fast path of FrameReader did not handle (section 1.8.3.13)."""
    tag, multiple = arg.tag(args), arg.flag(args, "multiple")
    if channel.transaction is not None:
        channel.transaction.settle(tag, multiple, Outcome.ACCEPTED)
        return
    channel.unsettled.acknowledge(tag, multiple, channel.broker.now)


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
    channel.reply(args, spec.CONFIRM_SELECT_OK, {})
