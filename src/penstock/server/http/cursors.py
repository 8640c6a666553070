"""Handlers for cursors: progress of readers, and deletion."""

from __future__ import annotations

from starlette.responses import Response

from penstock.management import rabbitmq_json
from penstock.server.http.listing import collected, listed, one
from penstock.server.http.request import ApiRequest, no_content


async def cursors(request: ApiRequest) -> Response:
    """List cursors, all or of a virtual host."""
    return await listed(request, await collected(request, "cursors", request.vhost_or_all()))


async def cursor(request: ApiRequest) -> Response:
    """Show a cursor."""
    return one(
        request,
        rabbitmq_json.cursor_of(
            request.driver.control.cursors.cursor(request.vhost(), request.part("name")), request.driver
        ),
    )


async def delete_cursor(request: ApiRequest) -> Response:
    """Delete a cursor; its reader gets an error at its next request."""
    request.begin()
    request.driver.control.cursors.delete_cursor(request.vhost(), request.part("name"))
    return no_content()
