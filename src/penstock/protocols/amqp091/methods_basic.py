"""basic.*, confirm.* and channel.flow: consuming, settling and the modes of a channel."""

from __future__ import annotations

from penstock.core.consume.bulk_requeue import refuse_all, requeue_all
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.consumer_settings import ConsumerSettings
from penstock.core.publish.commit_delta import ACKNOWLEDGE, DISCARD, REQUEUE
from penstock.errors import NotAllowed, NotImplementedHere, PreconditionFailed
from penstock.flow.credit import UNBOUNDED
from penstock.management import log_messages
from penstock.protocols.amqp091 import direct_reply_to
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091.channel import Channel
from penstock.protocols.amqp091.methods_topology import named_queue
from penstock.protocols.amqp091.property_checks import REPLY_TO
from penstock.setting_names import read_consume_arguments, read_priority
from penstock.wire.amqp091 import spec


def nothing(channel: Channel, args: dict[str, object]) -> None:
    """A method that needs no answer and changes nothing."""


def channel_flow(channel: Channel, args: dict[str, object]) -> None:
    """The client stops or resumes its deliveries (section 1.5.2.3)."""
    active = arg.flag(args, "active")
    if active != channel.delivering:
        channel.connection.driver.log(log_messages.deliveries(channel.producer.name, active))
    channel.delivering = active
    if channel.delivering:
        channel.look_again()
    channel.send(spec.CHANNEL_FLOW_OK, {"active": channel.delivering})


def qos(channel: Channel, args: dict[str, object]) -> None:
    """Prefetch, in messages and bytes. RabbitMQ's meaning of global: false is for each new consumer, true for the
    channel as a whole. A message larger than a prefetch in bytes is delivered when nothing else is out."""
    count, size = arg.number(args, "prefetch_count"), arg.number(args, "prefetch_size")
    if arg.flag(args, "global"):
        channel.credit.window = count
        channel.credit.window_bytes = size or UNBOUNDED
        channel.look_again()
    else:
        channel.prefetch = count
        channel.prefetch_bytes = size
        if channel.credit.bounded():
            channel.credit.window = 0  # RabbitMQ: what is for consumers takes the place of what was for the channel.
            channel.credit.window_bytes = UNBOUNDED
            channel.look_again()
    channel.send(spec.BASIC_QOS_OK, {})


def consume(channel: Channel, args: dict[str, object]) -> None:
    """Subscribe (section 1.8.3.3)."""
    if arg.text(args, "queue") == REPLY_TO:
        direct_reply_to.consume(channel, args)
        return
    queue = named_queue(channel, args)
    channel.connection.driver.deliver_first(queue)
    tag = arg.text(args, "consumer_tag") or channel.connection.driver.make_name("amq.ctag")
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    arguments = arg.table(args, "arguments")
    terms = ConsumerSettings(queue.settings, read_consume_arguments(tag, arguments))
    no_ack, exclusive = arg.flag(args, "no_ack"), arg.flag(args, "exclusive")
    window_bytes = terms.narrower_window(channel.prefetch_bytes)
    priority = read_priority(tag, arguments)
    consumer = Consumer(tag, channel, queue, no_ack, exclusive, channel.prefetch, window_bytes, priority)
    consumer.arguments = arguments
    channel.broker.consume(channel, consumer, terms)
    if len(channel.consumers) == 1:
        channel.connection.review_hold_bound()
    if args.get("no_wait") is not True:
        channel.send(spec.BASIC_CONSUME_OK, {"consumer_tag": tag})


def cancel(channel: Channel, args: dict[str, object]) -> None:
    """Unsubscribe; what is not settled stays with the channel (section 1.8.3.5)."""
    tag = arg.text(args, "consumer_tag")
    consumer = channel.consumers.get(tag)
    if consumer is not None:
        channel.connection.driver.deliver_first(consumer.queue)
    channel.broker.cancel(channel, tag)
    channel.forget_consumer(tag)
    if not channel.consumers:
        channel.connection.review_hold_bound()
    if args.get("no_wait") is not True:
        channel.send(spec.BASIC_CANCEL_OK, {"consumer_tag": tag})


def ack(channel: Channel, args: dict[str, object]) -> None:
    """Settle deliveries; here only those that the fast way of Intake did not take (section 1.8.3.13)."""
    tag, multiple = arg.tag(args), arg.flag(args, "multiple")
    if channel.transaction is not None:
        channel.transaction.settle(tag, multiple, ACKNOWLEDGE)
        return
    channel.acknowledge(tag, multiple, channel.broker.now)


def nack(channel: Channel, args: dict[str, object]) -> None:
    """Refuse deliveries, one or a range (an extension of RabbitMQ)."""
    _refuse(channel, arg.tag(args), arg.flag(args, "multiple"), arg.flag(args, "requeue"))


def reject(channel: Channel, args: dict[str, object]) -> None:
    """Refuse one delivery (section 1.8.3.14)."""
    _refuse(channel, arg.tag(args), False, arg.flag(args, "requeue"))


def _refuse(channel: Channel, tag: int, multiple: bool, requeue: bool) -> None:
    if channel.transaction is not None:
        channel.transaction.settle(tag, multiple, REQUEUE if requeue else DISCARD)
        return
    if multiple:
        (requeue_all if requeue else refuse_all)(channel.broker, channel, tag)
    elif requeue:
        for queue in channel.requeue(tag, False, channel.broker.now):
            channel.broker.schedule_delivery(queue)
    else:
        channel.reject(tag, False, channel.broker.now)


def recover(channel: Channel, args: dict[str, object]) -> None:
    """Deliver again everything that is not settled, to whoever has room (section 1.8.3.16).

    Only with requeue=true, as in RabbitMQ (540 otherwise).
    """
    recover_async(channel, args)
    channel.send(spec.BASIC_RECOVER_OK, {})


def recover_async(channel: Channel, args: dict[str, object]) -> None:
    """As `recover`, without an answer (section 1.8.3.15)."""
    if not arg.flag(args, "requeue"):
        raise NotImplementedHere("requeue=false")
    if channel.transaction is not None:
        channel.transaction.recover()
        return
    if channel.has_unsettled():
        requeue_all(channel.broker, channel, 0)


def confirm_select(channel: Channel, args: dict[str, object]) -> None:
    """Have the publishes of this channel confirmed (an extension of RabbitMQ)."""
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    channel.producer.confirming = True
    if args.get("no_wait") is not True:
        channel.send(spec.CONFIRM_SELECT_OK, {})
