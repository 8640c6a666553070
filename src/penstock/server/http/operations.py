"""Paths of HTTP that are derived from operations: fields from path, query and body; status and body of the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from penstock.describe.table import Row
from penstock.management.operation import CHANGES, Answer, Operation, Route
from penstock.protocols.common.control_request import ControlRequest
from penstock.server.http.listing import one
from penstock.server.http.request import ApiRequest, Handler, json_response, no_content, not_found

Prepare = Callable[[Row], Awaitable[None]]
"""Function that replaces fields of a body that only the server can read."""


def handler(operation: Operation, route: Route, prepare: Prepare | None = None) -> Handler:
    """Return the handler of an operation at a route."""

    async def carry_out(request: ApiRequest) -> Response:
        asked = await _asked(request, operation, route, prepare)
        if operation.before is not None:
            request.before = asked.before = operation.before(request.driver, asked)
            if request.before is None and route.method == "DELETE":
                raise not_found()
        answer = await _answer(request, operation, asked)
        request.before = asked.before
        if answer is None:
            raise not_found()
        if not route.silent:
            return one(request, answer) if isinstance(answer, dict) else json_response(answer)
        assert isinstance(answer, dict)
        is_new = operation.before is not None and request.before is None
        headers = {"Location": str(answer["location"])} if "location" in answer else None
        return no_content(201 if answer.get("created", is_new and route.method == "PUT") else 204, headers)

    carry_out.__doc__ = route.purpose
    return carry_out


async def _answer(request: ApiRequest, operation: Operation, asked: ControlRequest) -> Answer:
    answer = operation.run(request.driver, asked)
    if answer is None or isinstance(answer, dict | list):
        return answer
    return await request.in_steps(answer, operation.how == CHANGES)


async def _asked(request: ApiRequest, operation: Operation, route: Route, prepare: Prepare | None) -> ControlRequest:
    """Return the request of an operation, whose fields are parts of the path, of the query and of the body."""
    body = await request.fields(*route.needed) if route.reads_body else {}
    if prepare is not None:
        body = dict(body)
        await prepare(body)
    if route.method != "GET":
        request.begin()
    parts = {name: request.part(name) for name in request.http_request.path_params}
    query = {name: request.query[name] for name in route.query if name in request.query}
    flags = {name: body[name] == "true" for name in route.flags if body.get(name) in ("true", "false")}
    flags |= {name: query[name] == "true" for name in route.flags if name in query}
    fields: Row = {**body, **query, **flags, **parts, **route.fixed}
    asked = request.asked(route, bool(operation.permissions))
    if route.read is not None:
        asked.fields = route.read(fields)
    else:
        known = {*operation.fields, *query, *parts, *route.fixed}
        asked.fields = {name: value for name, value in fields.items() if name in known}
    return asked
