"""Direct reply-to: replies go straight to the requesting channel, without a declared queue (RabbitMQ's extension).

A client consumes from `amq.rabbitmq.reply-to` without acknowledgements and sets the same name as `reply_to` of its
requests. The broker replaces that name by an address of this channel. Servers publish their replies to the address
through the default exchange. Behind the address is an unlisted queue that is deleted with its consumer. A requester
that does not read therefore blocks nobody. Replies that its connection does not take wait in that queue. A reply beyond
the queue's capacity (the broker's default, unless a pattern sets one) is refused: nack, and basic.return if it is
mandatory.
"""

from __future__ import annotations

from typing import Final

from penstock.core.consume.consumer import Consumer
from penstock.core.queue.queue_settings import ConsumerSettings
from penstock.core.vhost import REPLY_TO
from penstock.errors import NotAllowed, NotFound, PreconditionFailed
from penstock.flow.credit import Credit
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091.channel import Channel
from penstock.wire.amqp091 import spec

PREFIX: Final = REPLY_TO + "."
"""Prefix of reply addresses."""


def consume(channel: Channel, args: dict[str, object]) -> None:
    """Deliver replies to this channel. Raises PreconditionFailed (406), NotAllowed (530)."""
    services = channel.connection.services
    tag = arg.text(args, "consumer_tag") or services.make_name("amq.ctag")
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    if not arg.flag(args, "no_ack"):
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.replies_to():
        raise PreconditionFailed("reply consumer already set")
    arguments = arg.table(args, "arguments")
    channel.broker.gates.metadata.admit(f"consumer '{tag}'", channel.vhost.name, arguments)
    queue = channel.vhost.create_reply_queue(PREFIX + services.make_name("")[1:])
    consumer = Consumer(tag, channel, queue, True, False, 0)
    consumer.shared = Credit()  # Replies ignore the channel's prefetch (as in RabbitMQ).
    consumer.arguments = arguments
    channel.broker.consume(channel, consumer, ConsumerSettings(queue.settings, {}))
    channel.replies = queue
    channel.connection.review_hold_bound()
    channel.reply(args, spec.BASIC_CONSUME_OK, {"consumer_tag": tag})


def declare(channel: Channel, name: str) -> dict[str, object]:
    """Answer a declaration of a reply address: it only checks that the address exists. Raises NotFound (404)."""
    if name != REPLY_TO and name not in channel.vhost.replies:
        raise NotFound(f"no queue '{name}' in vhost '{channel.vhost.name}'")
    return {"queue": name, "message_count": 0, "consumer_count": 1}
