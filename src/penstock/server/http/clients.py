"""Handlers for connections, channels and consumers: lists, details, and closing a connection."""

from __future__ import annotations

from starlette.responses import Response

from penstock.core.consume.session import Session
from penstock.describe.connection import CONNECTION
from penstock.describe.lists import Item
from penstock.describe.session import session_in_full
from penstock.errors import ConnectionForced
from penstock.protocols.common.connection import Connection
from penstock.server.http.authorization import check_closed, check_seen, found_or_hidden
from penstock.server.http.listing import collected, listed, one, reading_of
from penstock.server.http.request import ApiRequest, no_content

REASON = "Closed via management plugin"
"""Default of X-Reason: RabbitMQ's text, which programs know."""


async def connection(request: ApiRequest) -> Response:
    """Show a connection."""
    found = _connection(request)
    check_seen(request, found.user)
    return one(request, CONNECTION.row(found, reading_of(request)))


async def close_connection(request: ApiRequest) -> Response:
    """Close a connection (320); the header X-Reason is sent to its client."""
    request.begin()
    found = _connection(request)
    check_closed(request, found.user)
    _close(request, found)
    return no_content()


async def connections_of_user(request: ApiRequest) -> Response:
    """List the connections of a user."""
    check_seen(request, request.part("user"))
    items = await collected(request, "connections", None)
    return await listed(request, [item for item in items if _of(item).user == request.part("user")])


async def close_connections_of_user(request: ApiRequest) -> Response:
    """Close all connections of a user."""
    check_closed(request, request.part("user"))
    request.begin()
    for each in list(request.driver.connections.values()):
        if each.user == request.part("user"):
            _close(request, each)
    return no_content()


async def channels_of_connection(request: ApiRequest) -> Response:
    """List the channels of a connection."""
    found = _connection(request)
    check_seen(request, found.user)
    items = [Item(channel.name, found.vhost, channel) for channel in found.engine.sessions()]
    return await listed(request, items)


async def channel(request: ApiRequest) -> Response:
    """Show a channel."""
    for item in await collected(request, "channels", None):
        if item.name == request.part("name") and isinstance(item.subject, Session):
            return one(request, session_in_full(item.subject, reading_of(request)))
    raise found_or_hidden(request)


def _of(item: Item) -> Connection:
    assert isinstance(item.subject, Connection)
    return item.subject


def _connection(request: ApiRequest) -> Connection:
    for found in request.driver.connections.values():
        if found.vhost is not None and found.name() == request.part("name"):
            return found
    raise found_or_hidden(request)


def _close(request: ApiRequest, found: Connection) -> None:
    found.close(ConnectionForced(request.http_request.headers.get("x-reason") or REASON))
