"""HTTP application: the table of paths, methods and handlers, access rules, and error responses.

The handler of an operation at a route is derived: the operation's fields from path, query and body, and the status and
body of the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING
from penstock.access.rules import DEFAULT_EXCHANGE
from penstock.connections.control_request import ControlRequest
from penstock.describe.lists import Found
from penstock.describe.table import Row
from penstock.errors import BrokerError
from penstock.flow.pool import PoolHolder
from penstock.flow.progress import WorkProgress
from penstock.flow.work import Steps
from penstock.management.operation import (
    CHANGES,
    OBJECT,
    PAGES,
    Answer,
    Need,
    Operation,
    Route,
    Streamed,
    Waiting,
    job_steps,
    need_at,
)
from penstock.operations.table import OPERATIONS
from penstock.server.http import metrics, objects
from penstock.server.http.answers import streamed_octets
from penstock.server.http.console import pages, stream
from penstock.server.http.lists import list_fields, listed, sample_fields
from penstock.server.http.login import login, refusal_of
from penstock.server.http.request import (
    BODY_MOST,
    ApiRequest,
    Handler,
    HttpError,
    Identity,
    Joined,
    LongAnswer,
    Service,
    bad_request,
    http_actor,
    not_found,
)
from penstock.server.http.written import joined_response, written

Prepare = Callable[[Row], Awaitable[None]]
"""Function that replaces fields of a body that only the server can read."""


def handler(operation: Operation, route: Route, prepare: Prepare | None = None) -> Handler:
    """Return the handler of an operation at a route."""

    async def carry_out(request: ApiRequest) -> Response:
        elsewhere = request.service.elsewhere
        if elsewhere is not None:
            passed = await elsewhere.passed(request, operation, route)
            if passed is not None:
                return passed
        asked = await _asked(request, operation, route, prepare)
        if elsewhere is not None:
            found = await elsewhere.answer(request, operation, route, asked)
            if isinstance(found, Joined):
                return await joined_response(request, operation, route, asked, found)
            if found is not None:
                return found
        if operation.before is not None:
            request.before = asked.before = operation.before(request.driver, asked)
            if request.before is None and route.method == "DELETE":
                raise not_found()
        answer = await carried_out(request, operation, asked)
        request.before = asked.before
        if request.detached is not None:
            return request.accepted()
        if isinstance(answer, Streamed):
            return LongAnswer(streamed_octets(request, answer), request.http_request)
        if answer is None:
            raise not_found()
        if isinstance(answer, Found):
            return await listed(request, answer)
        return await written(request, operation, route, asked, answer)

    carry_out.__doc__ = route.purpose
    return carry_out


async def carried_out(request: ApiRequest, operation: Operation, asked: ControlRequest) -> Answer | Streamed:
    """Carry out an operation; None also for a job that goes on, which `request.detached` is."""
    if operation.job is not None:
        subjects = operation.job(request.driver, asked)
        return await request.in_job(operation.name, subjects, partial(_job_steps, request, operation, asked))
    answer = operation.run(request.driver, asked)
    if answer is None or isinstance(answer, dict | list | str | Streamed | Found):
        return answer
    if isinstance(answer, Waiting):
        return await request.waited(answer.steps)
    return await request.in_steps(answer, operation.how == CHANGES)


def _job_steps(request: ApiRequest, operation: Operation, asked: ControlRequest, progress: WorkProgress) -> Steps[Row]:
    """Carry out the operation of a job."""
    asked.progress = progress
    answer = yield from job_steps(operation, request.driver, asked)
    assert isinstance(answer, dict)
    return answer


async def _asked(request: ApiRequest, operation: Operation, route: Route, prepare: Prepare | None) -> ControlRequest:
    """Return the request of an operation, whose fields are parts of the path, of the query and of the body."""
    body = await _body(request, route) if route.reads_body else {}
    if prepare is not None:
        body = dict(body)
        await prepare(body)
    if route.method != "GET":
        request.begin()
    parts = {name: request.part(name) for name in request.http_request.path_params}
    query: Row = {name: request.query[name] for name in route.query if name in request.query}
    query |= {name: request.query.getlist(name) for name in route.many if name in request.query}
    flags = {name: body[name] == "true" for name in route.flags if body.get(name) in ("true", "false")}
    flags |= {name: request.flag(name) for name in route.flags if name in query}
    headers: Row = {field: request.http_request.headers.get(name, "") for name, field in route.headers}
    fields: Row = {**body, **query, **flags, **headers, **parts, **route.fixed}
    asked = request.asked(route, bool(operation.permissions))
    if route.read is not None:
        asked.fields = route.read(fields)
    else:
        known = {*operation.fields, *query, *parts, *route.fixed}
        asked.fields = {name: value for name, value in fields.items() if name in known}
    if operation.gives == PAGES:
        asked.fields |= list_fields(request)
    elif operation.gives == OBJECT:
        asked.fields |= sample_fields(request)
    return asked


async def _body(request: ApiRequest, route: Route) -> Row:
    """Return the fields of a body: those of an object, or the body itself."""
    most = route.body_most or BODY_MOST
    if not route.body_field:
        return await request.fields(*route.needed, most=most)
    if request.http_request.headers.get("content-type", "").startswith("multipart/"):
        raise bad_request(f"{route.body_field} are read from a body in JSON, not from a form")
    return {route.body_field: await request.body(most)}


Refusal = Callable[[Request, Exception], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]
NO_ENDPOINTS: Final[Mapping[str, Endpoint]] = {}

HEALTH_CHECKS: Final = ("/health/checks/", "/healthchecks/", "/aliveness-test/")
"""Path prefixes that are answered whatever the number of connections."""
BUSY: Final = {"Retry-After": "1", "Connection": "close"}

STATUS_WORDS: Final = {
    400: "bad_request",
    401: "not_authorised",
    404: "not_found",
    405: "method_not_allowed",
    500: "internal_error",
}
"""RabbitMQ's word for each status of an error of the broker."""

NO_RABBITMQADMIN: Final = (
    "rabbitmqadmin is RabbitMQ's and not served here; it works with this API: take it from "
    "https://github.com/rabbitmq/rabbitmq-server (version 3: deps/rabbitmq_management/bin/rabbitmqadmin)"
)


class Own:
    """Paths with a handler written for HTTP: lists, and content of HTTP alone (decision 159)."""

    def __init__(
        self, where: str, tag: str, handler: Handler, *permissions: str, vhost: str | None = None, audited: bool = True
    ) -> None:
        method, *paths = where.split()
        self.method = method
        self.paths = paths
        self.handler = handler
        self.audited = audited and method != "GET"
        self.needs = [need_at(path, tag, permissions, vhost) for path in paths]


OWN: Final = (
    Own("GET /whoami", MANAGEMENT, objects.whoami),
    Own("GET /auth/hash_password/{password}", ADMINISTRATOR, objects.password_hash),
    Own("GET /penstock/events", MONITORING, stream.events),
)  # fmt: skip


class Place(NamedTuple):
    """Handler of a method at a path, with the rights required."""

    handler: Handler
    need: Need
    audited: bool


def table_of(operations: Iterable[Operation]) -> dict[str, dict[str, Place]]:
    """Return the handlers of HTTP's own paths, and of operations at their routes, by path and method."""
    table: dict[str, dict[str, Place]] = {}
    for row in OWN:
        for path, need in zip(row.paths, row.needs, strict=True):
            table.setdefault(path, {})[row.method] = Place(row.handler, need, row.audited)
    for operation in operations:
        for route in operation.routes:
            derived = handler(operation, route, PREPARED.get(operation.name))
            for path in route.paths:
                tag = operation.tag if route.tag is None else route.tag
                need = need_at(path, tag, operation.permissions, route.vhost)
                audited = operation.audited and route.method != "GET"
                table.setdefault(path, {})[route.method] = Place(derived, need, audited)
    return table


PREPARED: Final = {"user.declare": objects.hash_given}
"""Preprocessing that needs threads (password hashing), by operation."""
TABLE: Final = table_of(OPERATIONS)
"""Routes below /api: RabbitMQ's paths and methods, and our own, which begin with /penstock."""


def make_app(service: Service, scraped: metrics.MetricsService, more: Mapping[str, Endpoint] = NO_ENDPOINTS) -> ASGIApp:
    """Return the application: the routes of the API and of metrics, behind a login, and the pages of the console.

    `more` are functions for POST by path, which log their users in themselves.
    """
    routes = [
        HttpRoute(f"/api{path}", _endpoint(service, path, places), methods=[*places])
        # Fixed parts first: /connections/username/x before /connections/x/channels.
        for path, places in sorted(table_of(service.driver.control.rows).items(), key=lambda row: row[0].count("{"))
    ]
    figures = {"GET": Place(scraped.scraped, Need(MONITORING), False)}
    routes += [HttpRoute(path, _endpoint(service, path, figures), methods=["GET"]) for path in metrics.PATHS]
    routes += [HttpRoute(path, endpoint, methods=["POST"]) for path, endpoint in more.items()]
    none = {404: _after_login(service, _unknown), 405: _after_login(service, _wrong_method)}
    routes.append(HttpRoute("/cli/rabbitmqadmin", _no_rabbitmqadmin, methods=["GET"]))
    app = Starlette(routes=[*routes, *pages.routes()], exception_handlers=none)
    app.router.redirect_slashes = False
    return _Undecoded(app)


def _endpoint(service: Service, path: str, places: Mapping[str, Place]) -> Endpoint:
    event_loop = service.event_loop
    probes = path.startswith(HEALTH_CHECKS)

    async def endpoint(http_request: Request) -> Response:
        try:
            await service.pause(probes)
            method = "GET" if http_request.method == "HEAD" else http_request.method
            identity = await identity_of(service, http_request)
            http_request.state.payer = identity.user
            if not probes and await service.debts.rest(identity.user):
                await service.pause()  # Other requests of the same payer rest until the same time.
            refusal = refusal_of(identity.rules, places[method].need, http_request.path_params)
            if refusal is not None:
                actor = http_actor(http_request, identity.user)
                event_loop.driver.audit.refused(actor, f"{method} {path}", str(refusal))
                raise refusal
            holder = PoolHolder(identity.user, "", identity.rules.has_tag(MONITORING))
            room = http_request.state.socket.log_in(holder)
            if not room and not probes:
                reason = http_request.state.socket.admission.refusal(holder)
                raise HttpError(503, "service_unavailable", reason, BUSY)
            request = ApiRequest(http_request, service, identity)
            request.operation = f"{method} {path}"
            promises = event_loop.driver.broker.durable_changes
            declared = promises.durable_declarations
            try:
                answer = await places[method].handler(request)
                if places[method].audited and request.detached is None and not request.answered_elsewhere:
                    request.audit(request.operation)
            finally:
                request.end()
            if method != "GET" and promises.durable_declarations != declared and not request.answered_elsewhere:
                await _on_disk(service, declared)
                if service.elsewhere is not None:
                    await service.elsewhere.settled()
            if not room:
                answer.headers["Connection"] = "close"
            return answer
        except HttpError as error:
            return error.answer()
        except BrokerError as error:
            found = refused(error)
            if found.status == 405:
                found.headers = {"Allow": ", ".join(name for name in places if name == "GET")}
            return found.answer()
        except RecursionError:
            return bad_request("nested too deeply").answer()
        except Exception as unexpected:
            return refused(service.driver.failures.report(f"{http_request.method} {path}", unexpected)).answer()

    return endpoint


async def identity_of(service: Service, http_request: Request) -> Identity:
    """Return the user of a request. Raises HttpError (401)."""
    return await (service.identify or login)(http_request, service.driver)


def _after_login(service: Service, answer: Refusal) -> Refusal:
    """Return a handler for unknown paths and methods: strangers get 401, as at known paths."""

    async def refuse(http_request: Request, error: Exception) -> Response:
        try:
            await service.pause()
            await identity_of(service, http_request)
        except HttpError as refusal:
            return refusal.answer()
        return await answer(http_request, error)

    return refuse


async def _on_disk(service: Service, before: int) -> None:
    """Wait until the changes after the first `before` ones are durable.

    Raises HttpError (503) after the broker's hold deadline.
    """
    try:
        await service.event_loop.on_disk(before)
    except TimeoutError:
        broker = service.driver.broker
        fault = broker.gates.disk.fault
        why = "the disk has not answered" if fault.gate.open else fault.reason
        hold_deadline = f"{broker.defaults.hold_deadline_s:g} s"
        reason = f"the change is made, but not durable after {hold_deadline}, and may be lost: {why}"
        raise HttpError(503, "not_on_disk", reason) from None


def refused(error: BrokerError) -> HttpError:
    """Return the HTTP error for an error of the broker, in RabbitMQ's words."""
    headers = {"Retry-After": "1"} if error.retriable and error.http_status == 503 else None
    return HttpError(error.http_status, error.finer_word or STATUS_WORDS[error.http_status], str(error), headers)


async def _unknown(http_request: Request, error: Exception) -> Response:
    return not_found().answer()


async def _no_rabbitmqadmin(http_request: Request) -> Response:
    return HttpError(404, "not_found", NO_RABBITMQADMIN).answer()


async def _wrong_method(http_request: Request, error: Exception) -> Response:
    headers = getattr(error, "headers", None)
    reason = f"{http_request.method} is not a method of this; it has {(headers or {}).get('Allow', 'none')}"
    return HttpError(405, "method_not_allowed", reason, headers).answer()


OF_CLIENTS: Final = ("/api/connections/", "/api/channels/")
"""Beginnings of paths with the name of a connection or channel."""
AFTER_NAME: Final = ("channels", "sessions")
"""Parts of paths that may follow the name of a connection."""


def _with_one_name(path: str) -> str:
    """Return the path of a connection or channel with the slashes of its name quoted."""
    _, api, kind, *parts = path.split("/")
    if parts[0] == "username":
        return path
    after = [parts.pop()] if len(parts) > 1 and kind == "connections" and parts[-1] in AFTER_NAME else []
    return "/".join(["", api, kind, "%2F".join(parts), *after])


class _Undecoded:
    """Middleware that matches paths as they were sent: a slash in a name is %2F and separates nothing.

    An empty part is the default exchange, as rabbitmqadmin of RabbitMQ 4 names it (/exchanges/%2F//publish). A slash in
    the name of a connection or channel belongs to the name, because many clients do not quote slashes.

    A request with two kinds of length is rejected: a proxy may use the other length and read another request in the
    body (RFC 9112 section 6.1).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["raw_path"].decode("latin-1").rstrip("/") or "/"
            if path.startswith(OF_CLIENTS):
                path = _with_one_name(path)
            elif path.startswith("/api/"):
                path = path.replace("//", f"/{DEFAULT_EXCHANGE}/")
            scope["path"] = path
            names = {name for name, _ in scope["headers"]}
            if b"content-length" in names and b"transfer-encoding" in names:
                reason = "a request has either Content-Length or Transfer-Encoding, not both"
                await HttpError(400, "bad_request", reason, {"Connection": "close"}).answer()(scope, receive, send)
                return
        await self._app(scope, receive, send)
