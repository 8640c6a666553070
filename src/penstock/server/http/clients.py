"""Handlers for connections, channels and consumers: lists, details, and closing a connection."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from penstock.flow.work import Steps
from penstock.management import rabbitmq_json
from penstock.management.blocked_overview import is_named, of_everything_steps
from penstock.management.control_request import ControlRequest
from penstock.management.listing import Item
from penstock.management.why import SUBJECTS, answer
from penstock.protocols.amqp091.channel import Channel
from penstock.protocols.amqp091.connection import Connection
from penstock.server.http.listing import collected, listed, one
from penstock.server.http.request import ApiRequest, json_response, no_content, not_found

REASON = "Closed via management plugin"
"""Default of X-Reason: RabbitMQ's text, which programs know."""


async def connections(ask: ApiRequest) -> Response:
    """List connections, all or of a virtual host."""
    return await listed(ask, await collected(ask, "connections", ask.vhost_or_all()))


async def connection(ask: ApiRequest) -> Response:
    """Show a connection."""
    return one(ask, rabbitmq_json.connection_of(_connection(ask), ask.driver))


async def close_connection(ask: ApiRequest) -> Response:
    """Close a connection (320); the header X-Reason is sent to its client."""
    ask.begin()
    _close(ask, _connection(ask))
    return no_content()


async def connections_of_user(ask: ApiRequest) -> Response:
    """List the connections of a user."""
    items = await collected(ask, "connections", None)
    return await listed(ask, [item for item in items if _of(item).user == ask.part("user")])


async def close_connections_of_user(ask: ApiRequest) -> Response:
    """Close all connections of a user."""
    ask.begin()
    for each in list(ask.driver.connections.values()):
        if each.user == ask.part("user"):
            _close(ask, each)
    return no_content()


async def channels_of_connection(ask: ApiRequest) -> Response:
    """List the channels of a connection."""
    found = _connection(ask)
    items = [Item(channel.producer.name, found.vhost, channel) for channel in found.channels.values()]
    return await listed(ask, items)


async def channels(ask: ApiRequest) -> Response:
    """List channels, all or of a virtual host."""
    return await listed(ask, await collected(ask, "channels", ask.vhost_or_all()))


async def channel(ask: ApiRequest) -> Response:
    """Show a channel."""
    for item in await collected(ask, "channels", None):
        if item.name == ask.part("name") and isinstance(item.subject, Channel):
            return one(ask, rabbitmq_json.channel_in_full(item.subject, ask.driver))
    raise not_found()


async def consumers(ask: ApiRequest) -> Response:
    """List consumers, all or of a virtual host."""
    return await listed(ask, await collected(ask, "consumers", ask.vhost_or_all()))


async def why(ask: ApiRequest) -> Response:
    """Explain why nothing moves, as `penstock why --json`: for a queue, connection, channel or user, or for all."""
    subjects: rabbitmq_json.Shape = {name: ask.query[name] for name in SUBJECTS if name in ask.query}
    request = ask.control(subjects)
    if is_named(request):
        return json_response(answer(request, ask.driver))
    known: asyncio.Future[rabbitmq_json.Shape] = ask.event_loop.loop.create_future()
    ask.driver.scheduler.start(_tell_everything(ask, request, known))
    ask.begin()
    return json_response(await known)


def _tell_everything(
    ask: ApiRequest, request: ControlRequest, known: asyncio.Future[rabbitmq_json.Shape]
) -> Steps[None]:
    found = yield from of_everything_steps(ask.driver, request.vhost.name)
    if not known.done():
        known.set_result(found)


def _of(item: Item) -> Connection:
    assert isinstance(item.subject, Connection)
    return item.subject


def _connection(ask: ApiRequest) -> Connection:
    for found in ask.driver.connections.values():
        if found.vhost is not None and found.name() == ask.part("name"):
            return found
    raise not_found()


def _close(ask: ApiRequest, found: Connection) -> None:
    found.close(320, f"CONNECTION_FORCED - {ask.request.headers.get('x-reason') or REASON}", 0)
