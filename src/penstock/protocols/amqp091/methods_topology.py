"""Handlers of exchange.* and queue.*: the topology.

Semantics are RabbitMQ's where the specification leaves a choice.
"""

from __future__ import annotations

from penstock.access.rules import EXCHANGE, QUEUE
from penstock.connections import authorization, topology
from penstock.connections.topology import BindingTerms, asker_of
from penstock.content.properties import CONTROL_REPLIES
from penstock.core.queue.queue import Queue
from penstock.core.vhost import REPLY_TO
from penstock.errors import NotFound, PreconditionFailed
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091.channel import Channel
from penstock.protocols.amqp091.publishing import declare_replies
from penstock.wire.amqp091 import spec


def access_request(channel: Channel, args: dict[str, object]) -> None:
    """Answer access.request of AMQP 0-8, which old clients still send."""
    channel.send(spec.ACCESS_REQUEST_OK, {"reserved_1": 1})


def exchange_declare(channel: Channel, args: dict[str, object]) -> None:
    """Declare an exchange; passive only checks that it exists (section 1.6.2.1)."""
    name = arg.name(args, "exchange")
    if arg.flag(args, "passive"):
        channel.vhost.check_not_default(name)
        channel.vhost.exchange(name)
    else:
        topology.declare_exchange(
            asker_of(channel.connection),
            channel.vhost,
            name,
            arg.text(args, "type"),
            arg.table(args, "arguments"),
            arg.flag(args, "durable"),
            arg.flag(args, "auto_delete"),
            arg.flag(args, "internal"),
        )
    channel.reply(args, spec.EXCHANGE_DECLARE_OK, {})


def exchange_delete(channel: Channel, args: dict[str, object]) -> None:
    """Delete an exchange (section 1.6.2.3)."""
    asker = asker_of(channel.connection)
    topology.delete_exchange(asker, channel.vhost, arg.name(args, "exchange"), arg.flag(args, "if_unused"))
    channel.reply(args, spec.EXCHANGE_DELETE_OK, {})


def exchange_bind(channel: Channel, args: dict[str, object]) -> None:
    """Bind an exchange to an exchange (RabbitMQ's extension)."""
    topology.bind(asker_of(channel.connection), channel.vhost, _between_exchanges(args))
    channel.reply(args, spec.EXCHANGE_BIND_OK, {})


def exchange_unbind(channel: Channel, args: dict[str, object]) -> None:
    """Remove a binding between exchanges; a missing exchange or binding is no error (as in RabbitMQ)."""
    topology.unbind(asker_of(channel.connection), channel.vhost, _between_exchanges(args))
    channel.reply(args, spec.EXCHANGE_UNBIND_OK, {})


def _between_exchanges(args: dict[str, object]) -> BindingTerms:
    source, target, key = arg.name(args, "source"), arg.name(args, "destination"), arg.text(args, "routing_key")
    return BindingTerms(source, EXCHANGE, target, key, arg.table(args, "arguments"))


def queue_declare(channel: Channel, args: dict[str, object]) -> None:
    """Declare a queue; passive only checks that it exists (section 1.7.2.1)."""
    name = arg.name(args, "queue")
    connection = channel.connection
    if name.startswith(REPLY_TO):
        channel.reply(args, spec.QUEUE_DECLARE_OK, declare_replies(channel, name))
        return
    if arg.flag(args, "passive"):
        queue = channel.vhost.queue(name, connection)
        topology.observe_queue(asker_of(connection), queue)
    else:
        arguments = arg.table(args, "arguments")
        asker = asker_of(connection)
        name = _declared_name(channel, name, arguments, arg.flag(args, "exclusive"), asker)
        queue = topology.declare_queue(
            asker,
            channel.vhost,
            name,
            arguments,
            arg.flag(args, "durable"),
            arg.flag(args, "auto_delete"),
            arg.flag(args, "exclusive"),
        )
    channel.last_queue = queue.name
    answer: dict[str, object] = {
        "queue": queue.name,
        "message_count": min(int(queue.waiting()), 0xFFFFFFFF),
        "consumer_count": len(queue.consumers),
    }
    channel.reply(args, spec.QUEUE_DECLARE_OK, answer)


def _declared_name(
    channel: Channel, name: str, arguments: dict[str, object], exclusive: bool, asker: topology.Asker
) -> str:
    """Return the name of a queue that is declared. Raises AccessRefused (403) for a reserved name.

    An exclusive queue for answers to control requests needs no permission, like direct replies: other users need a
    permission to publish to it. A channel has at most one such queue. Dead letters of that queue are publishes of the
    client, and need permission.
    """
    make_name = channel.connection.services.make_name
    if name == CONTROL_REPLIES and exclusive:
        if channel.control_replies:
            raise PreconditionFailed(f"the channel has a queue for replies already, '{channel.control_replies}'")
        authorization.check_dead_letters(channel.access(), name, arguments)
        asker.access = None
        channel.control_replies = make_name(CONTROL_REPLIES)
        return channel.control_replies
    if name == "":
        return make_name("amq.gen")
    topology.check_not_reserved(name)
    return name


def queue_bind(channel: Channel, args: dict[str, object]) -> None:
    """Bind a queue to an exchange (section 1.7.2.3)."""
    topology.bind(asker_of(channel.connection), channel.vhost, _of_queue(channel, args))
    channel.reply(args, spec.QUEUE_BIND_OK, {})


def queue_unbind(channel: Channel, args: dict[str, object]) -> None:
    """Remove a binding of a queue (section 1.7.2.5); a missing queue or binding is no error (as in RabbitMQ)."""
    topology.unbind(asker_of(channel.connection), channel.vhost, _of_queue(channel, args))
    channel.send(spec.QUEUE_UNBIND_OK, {})


def queue_purge(channel: Channel, args: dict[str, object]) -> None:
    """Drop all ready messages (section 1.7.2.7)."""
    name = queue_name(channel, args)
    count = topology.purge_queue(asker_of(channel.connection), channel.vhost, name, name != channel.control_replies)
    channel.reply(args, spec.QUEUE_PURGE_OK, {"message_count": count})


def queue_delete(channel: Channel, args: dict[str, object]) -> None:
    """Delete a queue, on request only if it is unused or empty (section 1.7.2.9).

    A missing queue is no error (RabbitMQ since 3.2).
    """
    asker, name = asker_of(channel.connection), queue_name(channel, args)
    count = topology.delete_queue(asker, channel.vhost, name, arg.flag(args, "if_unused"), arg.flag(args, "if_empty"))
    channel.reply(args, spec.QUEUE_DELETE_OK, {"message_count": count or 0})


def readable_queue(channel: Channel, args: dict[str, object]) -> Queue:
    """Return the queue whose messages a method takes. Raises AccessRefused (403), NotFound, ResourceLocked."""
    name = queue_name(channel, args)
    if name != channel.control_replies:
        authorization.check_read_queue(channel.access(), name)
    return channel.vhost.queue(name, channel.connection)


def queue_name(channel: Channel, args: dict[str, object]) -> str:
    """Return the queue name of a method; an empty name means the last declared queue (section 1.7.2).

    Raises NotFound (404) if none was declared on the channel.
    """
    name = arg.name(args, "queue") or channel.last_queue
    if name == "":
        raise NotFound("no previously declared queue")
    return name


def _of_queue(channel: Channel, args: dict[str, object]) -> BindingTerms:
    """Return a binding of a queue; if name and key are both empty, both are the last declared queue's name (section
    1.7.2.3)."""
    name, key = queue_name(channel, args), arg.text(args, "routing_key")
    key = name if key == "" and arg.name(args, "queue") == "" else key
    return BindingTerms(arg.name(args, "exchange"), QUEUE, name, key, arg.table(args, "arguments"))
