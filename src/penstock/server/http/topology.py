"""Handlers for queues, exchanges and bindings: lists, details, declaration and deletion."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import Binding
from penstock.core.routing.exchange import Exchange
from penstock.core.vhost import VirtualHost
from penstock.errors import AccessRefused, ResourceLocked
from penstock.management import rabbitmq_json
from penstock.management.listing import Item, bindings_to, shape_binding
from penstock.server.http.listing import collected, listed, one
from penstock.server.http.request import (
    DEFAULT_EXCHANGE,
    ApiRequest,
    bad_request,
    flag,
    no_content,
    not_found,
    short,
    table,
    text,
)
from penstock.wire.amqp091.codec import CodecError, encode_table


def arguments_of(fields: rabbitmq_json.Shape) -> dict[str, object]:
    """Return the arguments of a declaration. Raises HttpError (400) for values that AMQP cannot encode."""
    arguments = table(fields, "arguments")
    try:
        encode_table(arguments)
    except CodecError as error:
        raise bad_request(f"arguments: {error.reason}") from None
    return arguments


# Queues


async def queues(ask: ApiRequest) -> Response:
    """List queues, all or of a virtual host."""
    return await listed(ask, await collected(ask, "queues", ask.vhost_or_all()))


async def queue(ask: ApiRequest) -> Response:
    """Show a queue."""
    return one(ask, rabbitmq_json.queue_in_full(ask.queue(), ask.driver))


async def declare_queue(ask: ApiRequest) -> Response:
    """Declare a queue: 201 if it is new, 204 if an equal one exists."""
    fields = await ask.fields()
    vhost, name = ask.vhost(), short(ask.part("name"), "a queue's name")
    there = name in vhost.queues
    if name.startswith("amq.") and not there:
        raise AccessRefused(f"queue name '{name}' contains the reserved prefix amq.*")
    found = vhost.declare_queue(
        name, arguments_of(fields), flag(fields, "durable"), flag(fields, "auto_delete"), None, None
    )
    ask.driver.broker.touch_queue(found)
    return no_content(204 if there else 201)


async def delete_queue(ask: ApiRequest) -> Response:
    """Delete a queue; if-empty=true and if-unused=true are conditions."""
    ask.begin()
    found = ask.queue()
    if found.owner is not None:
        raise ResourceLocked(f"queue '{found.name}' is exclusive: it belongs to the connection that declared it")
    ask.driver.broker.delete_queue(found, ask.flag("if-unused"), ask.flag("if-empty"))
    return no_content()


# Exchanges


async def exchanges(ask: ApiRequest) -> Response:
    """List exchanges, all or of a virtual host."""
    return await listed(ask, await collected(ask, "exchanges", ask.vhost_or_all()))


async def exchange(ask: ApiRequest) -> Response:
    """Show an exchange."""
    return one(ask, rabbitmq_json.exchange_of(ask.vhost(), ask.exchange()))


async def declare_exchange(ask: ApiRequest) -> Response:
    """Declare an exchange: 201 if it is new, 204 if an equal one exists."""
    fields = await ask.fields()
    vhost, name = ask.vhost(), short(ask.exchange_name(), "an exchange's name")
    there = name in vhost.exchanges
    if name == "":
        raise AccessRefused("the default exchange cannot be declared")
    vhost.declare_exchange(
        name,
        text(fields, "type", "direct"),
        arguments_of(fields),
        flag(fields, "durable"),
        flag(fields, "auto_delete"),
        flag(fields, "internal"),
    )
    return no_content(204 if there else 201)


async def delete_exchange(ask: ApiRequest) -> Response:
    """Delete an exchange; if-unused=true is a condition."""
    ask.begin()
    ask.vhost().delete_exchange(ask.exchange().name, ask.flag("if-unused"))
    return no_content()


# Bindings


async def all_bindings(ask: ApiRequest) -> Response:
    """List bindings, all or of a virtual host."""
    return await listed(ask, await collected(ask, "bindings", ask.vhost_or_all()), shape_binding)


async def bindings_of_queue(ask: ApiRequest) -> Response:
    """List the bindings that lead to a queue."""
    return await listed(ask, bindings_to(ask.vhost(), ask.queue(), None), shape_binding)


async def bindings_from_exchange(ask: ApiRequest) -> Response:
    """List the bindings that lead from an exchange."""
    source, vhost = ask.exchange(), ask.vhost()
    if source.name == "":
        items = [Item(queue.name, vhost, queue) for queue in vhost.queues.values()]
    else:
        items = [Item(source.name, vhost, binding) for binding in source.bindings.values()]
    return await listed(ask, items, shape_binding)


async def bindings_to_exchange(ask: ApiRequest) -> Response:
    """List the bindings that lead to an exchange."""
    return await listed(ask, bindings_to(ask.vhost(), None, ask.exchange()), shape_binding)


async def bindings_between(ask: ApiRequest) -> Response:
    """List the bindings from an exchange to a queue or exchange."""
    return await listed(ask, _between(ask), shape_binding)


async def binding(ask: ApiRequest) -> Response:
    """Show a binding, by its key."""
    return one(ask, shape_binding(ask.driver, _named(ask)))


async def bind(ask: ApiRequest) -> Response:
    """Bind a queue or an exchange to an exchange; the header Location has the binding's path."""
    fields = await ask.fields()
    vhost, source, name = ask.vhost(), ask.exchange_name("source"), ask.part("destination")
    key, arguments = short(text(fields, "routing_key"), "a routing key"), arguments_of(fields)
    found, target = _destination(vhost, ask.part("kind"), name)
    vhost.bind(source, found, target, key, arguments)
    where = quote(rabbitmq_json.properties_key(key, arguments), safe="")
    return no_content(201, {"Location": f"{quote(name, safe='')}/{where}"})


async def unbind(ask: ApiRequest) -> Response:
    """Remove a binding, by its key."""
    ask.begin()
    item = _named(ask)
    thing = item.subject
    if not isinstance(thing, Binding):
        raise AccessRefused("operation not permitted on the default exchange")
    ask.vhost().unbind(thing.source.name, thing.queue, thing.exchange, thing.key, thing.arguments)
    return no_content()


def _destination(vhost: VirtualHost, kind: str, name: str) -> tuple[Queue | None, Exchange | None]:
    if kind == "q":
        return vhost.queue(name), None
    if kind == "e":
        return None, vhost.exchange("" if name == DEFAULT_EXCHANGE else name)
    raise not_found()


def _between(ask: ApiRequest) -> list[Item]:
    vhost, source = ask.vhost(), ask.exchange("source")
    found, target = _destination(vhost, ask.part("kind"), ask.part("destination"))
    if source.name == "":
        return [] if found is None else [Item(found.name, vhost, found)]
    return [
        Item(source.name, vhost, each)
        for each in source.bindings.values()
        if each.queue is found and each.exchange is target
    ]


def _named(ask: ApiRequest) -> Item:
    wanted = ask.part("key")
    for item in _between(ask):
        thing = item.subject
        if isinstance(thing, Binding):
            key = rabbitmq_json.properties_key(thing.key, thing.arguments)
        else:
            key = rabbitmq_json.properties_key(item.name, {})
        if key == wanted:
            return item
    raise not_found()
