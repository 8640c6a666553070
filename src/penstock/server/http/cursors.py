"""Handlers for cursors: progress of readers, and deletion."""

from __future__ import annotations

from starlette.responses import Response

from penstock.management import rabbitmq_json
from penstock.server.http.listing import collected, listed, one
from penstock.server.http.request import ApiRequest, no_content


async def cursors(ask: ApiRequest) -> Response:
    """List cursors, all or of a virtual host."""
    return await listed(ask, await collected(ask, "cursors", ask.vhost_or_all()))


async def cursor(ask: ApiRequest) -> Response:
    """Show a cursor."""
    return one(ask, rabbitmq_json.cursor_of(ask.driver.control.cursor(ask.vhost(), ask.part("name")), ask.driver))


async def delete_cursor(ask: ApiRequest) -> Response:
    """Delete a cursor; its reader gets an error at its next request."""
    ask.begin()
    ask.driver.control.delete_cursor(ask.vhost(), ask.part("name"))
    return no_content()
