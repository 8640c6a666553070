"""Handlers for cursors: progress of readers, moves, and deletion."""

from __future__ import annotations

from starlette.responses import Response

from penstock.describe.table import Row
from penstock.flow.work import Steps
from penstock.management.cursor_admin import move_steps, show
from penstock.server.http.listing import collected, listed, one
from penstock.server.http.request import ApiRequest, json_response, no_content


async def cursors(request: ApiRequest) -> Response:
    """List cursors, all or of a virtual host."""
    return await listed(request, await collected(request, "cursors", request.vhost_or_all()))


async def cursor(request: ApiRequest) -> Response:
    """Show a cursor."""
    control = request.control_in(request.vhost(), {"cursor": request.part("name")})
    return one(request, show(request.driver, control))


async def move_cursor(request: ApiRequest) -> Response:
    """Move a cursor as `cursor.move` does: `to`, and `queues`, `dry_run` and `force` if they are given."""
    fields = await request.fields("to")
    control = request.control_in(request.vhost(), {**fields, "cursor": request.part("name")})
    answers: list[Row] = []
    await request.in_turn(_collect(move_steps(request.driver, control), answers))
    return json_response(answers[0])


def _collect(steps: Steps[Row], answers: list[Row]) -> Steps[None]:
    """Run steps, and put their result into a list."""
    answers.append((yield from steps))


async def delete_cursor(request: ApiRequest) -> Response:
    """Delete a cursor; its reader gets an error at its next request."""
    request.begin()
    control = request.control_in(request.vhost(), {"cursor": request.part("name")})
    request.driver.control.cursors.delete(control)
    return no_content()
