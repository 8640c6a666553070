"""Handlers for cursors: progress of readers, moves, and deletion."""

from __future__ import annotations

import json

from starlette.responses import Response

from penstock.flow.work import Steps
from penstock.management.control_request import ControlRequest
from penstock.management.cursor_admin import cursor_details, move_steps
from penstock.management.rabbitmq_json import Shape
from penstock.server.http.listing import collected, listed, one
from penstock.server.http.request import ApiRequest, json_response, no_content


async def cursors(request: ApiRequest) -> Response:
    """List cursors, all or of a virtual host."""
    return await listed(request, await collected(request, "cursors", request.vhost_or_all()))


async def cursor(request: ApiRequest) -> Response:
    """Show a cursor."""
    found = request.driver.control.cursors.cursor(request.vhost(), request.part("name"))
    return one(request, cursor_details(found, request.driver, True))


async def move_cursor(request: ApiRequest) -> Response:
    """Move a cursor as `cursor.move` does: `to`, and `queues`, `dry_run` and `force` if they are given."""
    fields = await request.fields("to")
    asked = json.dumps({**fields, "cursor": request.part("name")}).encode()
    control = ControlRequest(request.vhost(), None, None, None, asked)
    answers: list[Shape] = []
    await request.in_turn(_collect(move_steps(request.driver, control), answers))
    return json_response(answers[0])


def _collect(steps: Steps[Shape], answers: list[Shape]) -> Steps[None]:
    """Run steps, and put their result into a list."""
    answers.append((yield from steps))


async def delete_cursor(request: ApiRequest) -> Response:
    """Delete a cursor; its reader gets an error at its next request."""
    request.begin()
    request.driver.control.cursors.delete_cursor(request.vhost(), request.part("name"))
    return no_content()
