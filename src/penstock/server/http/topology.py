"""Handlers for queues, exchanges and bindings: lists, details, declaration and deletion."""

from __future__ import annotations

from urllib.parse import quote, unquote_plus

from starlette.responses import Response

from penstock.access.rules import EXCHANGE, QUEUE
from penstock.content.field_table import InvalidTable, check_table
from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import Binding, arguments_digest
from penstock.core.routing.exchange import Exchange
from penstock.core.vhost import VirtualHost
from penstock.describe.lists import Item, Rows, bindings_to, collected_steps
from penstock.describe.queue import queue_in_full
from penstock.describe.routing import EXCHANGE as EXCHANGE_TABLE
from penstock.describe.routing import properties_key
from penstock.describe.table import Row
from penstock.errors import AccessRefused, ResourceLocked
from penstock.flow.work import Steps
from penstock.management.redaction import redact
from penstock.protocols.common import authorization
from penstock.server.http.listing import listed, listed_queues, one, reading_of
from penstock.server.http.request import (
    DEFAULT_EXCHANGE,
    ApiRequest,
    bad_request,
    flag,
    json_response,
    no_content,
    not_found,
    short,
    table,
    text,
)


def arguments_of(fields: Row) -> dict[str, object]:
    """Return the arguments of a declaration. Raises HttpError (400) for values that no client can be sent."""
    arguments = table(fields, "arguments")
    try:
        check_table(arguments)
    except InvalidTable as error:
        raise bad_request(f"arguments: {error}") from None
    return arguments


# Queues


async def queues(request: ApiRequest) -> Response:
    """List queues, all or of a virtual host."""
    return await listed_queues(request, request.vhost_or_all())


async def queue(request: ApiRequest) -> Response:
    """Show a queue."""
    return one(request, queue_in_full(request.queue(), reading_of(request)))


async def declare_queue(request: ApiRequest) -> Response:
    """Declare a queue: 201 if it is new, 204 if an equal one exists."""
    fields = await request.fields()
    vhost, name = request.vhost(), short(request.part("name"), "a queue's name")
    there = name in vhost.queues
    if name.startswith("amq.") and not there:
        raise AccessRefused(f"queue name '{name}' contains the reserved prefix amq.*")
    arguments = arguments_of(fields)
    authorization.check_declare_queue(request.access(vhost), vhost, name, arguments)
    found = vhost.declare_queue(name, arguments, flag(fields, "durable"), flag(fields, "auto_delete"), None, None)
    request.driver.broker.touch_queue(found)
    return no_content(204 if there else 201)


async def delete_queue(request: ApiRequest) -> Response:
    """Delete a queue; if-empty=true and if-unused=true are conditions."""
    request.begin()
    authorization.check_delete_queue(request.access(request.vhost()), request.part("name"))
    found = request.queue()
    if found.owner is not None:
        raise ResourceLocked(f"queue '{found.name}' is exclusive: it belongs to the connection that declared it")
    request.driver.broker.delete_queue(found, request.flag("if-unused"), request.flag("if-empty"))
    return no_content()


# Exchanges


async def exchange(request: ApiRequest) -> Response:
    """Show an exchange."""
    return one(request, EXCHANGE_TABLE.row(request.exchange(), reading_of(request)))


async def declare_exchange(request: ApiRequest) -> Response:
    """Declare an exchange: 201 if it is new, 204 if an equal one exists."""
    fields = await request.fields()
    vhost, name = request.vhost(), short(request.exchange_name(), "an exchange's name")
    there = name in vhost.exchanges
    if name == "":
        raise AccessRefused("the default exchange cannot be declared")
    arguments = arguments_of(fields)
    authorization.check_declare_exchange(request.access(vhost), vhost, name, arguments)
    vhost.declare_exchange(
        name,
        text(fields, "type", "direct"),
        arguments,
        flag(fields, "durable"),
        flag(fields, "auto_delete"),
        flag(fields, "internal"),
    )
    return no_content(204 if there else 201)


async def delete_exchange(request: ApiRequest) -> Response:
    """Delete an exchange; if-unused=true is a condition."""
    request.begin()
    vhost = request.vhost()
    authorization.check_delete_exchange(request.access(vhost), vhost, request.exchange_name())
    vhost.delete_exchange(request.exchange().name, request.flag("if-unused"))
    return no_content()


# Bindings


async def bindings_of_queue(request: ApiRequest) -> Response:
    """List the bindings that lead to a queue."""
    return await listed(request, bindings_to(request.vhost(), request.queue(), None), as_bindings=True)


async def bindings_from_exchange(request: ApiRequest) -> Response:
    """List the bindings that lead from an exchange."""
    source, vhost = request.exchange(), request.vhost()
    if source.name == "":
        items = await request.in_steps(collected_steps(request.driver, "queues", vhost))
    else:
        items = [Item(source.name, vhost, binding) for binding in source.bindings.values()]
    return await listed(request, items, as_bindings=True)


async def bindings_to_exchange(request: ApiRequest) -> Response:
    """List the bindings that lead to an exchange."""
    return await listed(request, bindings_to(request.vhost(), None, request.exchange()), as_bindings=True)


async def bindings_between(request: ApiRequest) -> Response:
    """List the bindings from an exchange to a queue or exchange."""
    return await listed(request, _between(request), as_bindings=True)


async def binding(request: ApiRequest) -> Response:
    """Show a binding, by its key."""
    return one(request, Rows(request.driver, as_bindings=True).of(_named(request).subject))


async def bind(request: ApiRequest) -> Response:
    """Bind a queue or an exchange to an exchange; the header Location has the binding's path."""
    fields = await request.fields()
    vhost, source, name = request.vhost(), request.exchange_name("source"), request.part("destination")
    key, arguments = short(text(fields, "routing_key"), "a routing key"), arguments_of(fields)
    _check_binding(request, key)
    found, target = _destination(vhost, request.part("kind"), name)
    made = vhost.bind(source, found, target, key, arguments)
    where = quote(properties_key(key, arguments_digest(made)), safe="")
    return no_content(201, {"Location": f"{quote(name, safe='')}/{where}"})


async def unbind(request: ApiRequest) -> Response:
    """Remove a binding, by its key."""
    request.begin()
    item = _named(request)
    subject = item.subject
    if not isinstance(subject, Binding):
        raise AccessRefused("operation not permitted on the default exchange")
    _check_binding(request, subject.key)
    request.vhost().unbind(subject.source.name, subject.queue, subject.exchange, subject.key, subject.arguments)
    return no_content()


def _check_binding(request: ApiRequest, key: str) -> None:
    """Check that the binding in the path, with a routing key, may be made or removed. Raises AccessRefused."""
    vhost, what = request.vhost(), EXCHANGE if request.part("kind") == "e" else QUEUE
    name = request.exchange_name("destination") if what == EXCHANGE else request.part("destination")
    authorization.check_binding(request.access(vhost), vhost, request.exchange_name("source"), what, name, key)


def _destination(vhost: VirtualHost, kind: str, name: str) -> tuple[Queue | None, Exchange | None]:
    if kind == "q":
        return vhost.queue(name), None
    if kind == "e":
        return None, vhost.exchange("" if name == DEFAULT_EXCHANGE else name)
    raise not_found()


def _between(request: ApiRequest) -> list[Item]:
    vhost, source = request.vhost(), request.exchange("source")
    found, target = _destination(vhost, request.part("kind"), request.part("destination"))
    if source.name == "":
        return [] if found is None else [Item(found.name, vhost, found)]
    return [
        Item(source.name, vhost, each)
        for each in source.bindings.values()
        if each.queue is found and each.exchange is target
    ]


def _named(request: ApiRequest) -> Item:
    """Return the binding in the path, whose routing key may have a `~` too."""
    wanted = request.part("key")
    vhost, source = request.vhost(), request.exchange("source")
    queue, exchange = _destination(vhost, request.part("kind"), request.part("destination"))
    if source.name == "":
        if queue is None or properties_key(queue.name, "") != wanted:
            raise not_found()
        return Item(queue.name, vhost, queue)
    what, name = (QUEUE, request.part("destination")) if exchange is None else (EXCHANGE, exchange.name)
    key, _, digest = wanted.rpartition("~")
    found = source.find_named(what, name, unquote_plus(wanted), "")
    if found is None:
        found = source.find_named(what, name, unquote_plus(key), digest)
    if found is None:
        raise not_found()
    return Item(source.name, vhost, found)


# Cursors


async def cursor(request: ApiRequest) -> Response:
    """Show a cursor."""
    control = request.control_in(request.vhost(), {"cursor": request.part("name")})
    return one(request, redact(request.driver.control.ranges.show(control), request.driver, control.access))


async def move_cursor(request: ApiRequest) -> Response:
    """Move a cursor as `cursor.move` does: `to`, and `queues`, `dry_run` and `force` if they are given."""
    fields = await request.fields("to")
    control = request.control_in(request.vhost(), {**fields, "cursor": request.part("name")})
    answers: list[Row] = []
    await request.in_turn(_collect(request.driver.control.ranges.move(control), answers))
    return json_response(answers[0])


def _collect(steps: Steps[Row], answers: list[Row]) -> Steps[None]:
    """Run steps, and put their result into a list."""
    answers.append((yield from steps))


async def delete_cursor(request: ApiRequest) -> Response:
    """Delete a cursor; its reader gets an error at its next request."""
    request.begin()
    control = request.control_in(request.vhost(), {"cursor": request.part("name")})
    request.driver.control.ranges.delete(control)
    return no_content()
