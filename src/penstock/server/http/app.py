"""HTTP application: the table of paths, methods and handlers, access rules, and error responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.errors import BrokerError
from penstock.server.http import (
    clients,
    get_messages,
    health,
    listing,
    messages,
    metrics,
    node,
    operator,
    permissions,
    policies,
    topology,
    users,
    vhosts,
)
from penstock.server.http.authorization import refusal_of
from penstock.server.http.console import pages, stream
from penstock.server.http.login import login
from penstock.server.http.request import (
    DEFAULT_EXCHANGE,
    ApiRequest,
    HttpError,
    Service,
    bad_request,
    http_actor,
    not_found,
)

Handler = Callable[[ApiRequest], Awaitable[Response]]
Refusal = Callable[[Request, Exception], Awaitable[Response]]


def read_only(sentence: str) -> Handler:
    """Return a handler for objects that cannot be changed here (405); it names the place to change them."""

    async def refuse(request: ApiRequest) -> Response:
        """Refuse with 405: this cannot be changed."""
        raise HttpError(405, "method_not_allowed", sentence)

    return refuse


CLUSTER: Final = read_only("the node has the name of its machine")
ACTIONS: Final = read_only("there is one node, so there is nothing to synchronise")

HEALTH_CHECKS: Final = ("/health/checks/", "/healthchecks/", "/aliveness-test/")
"""Path prefixes that are answered whatever the number of connections."""
BUSY: Final = {"Retry-After": "1", "Connection": "close"}

STATUS_WORDS: Final = {400: "bad_request", 401: "not_authorised", 404: "not_found", 500: "internal_error"}
"""RabbitMQ's word for each status of an error of the broker."""

NO_RABBITMQADMIN: Final = (
    "rabbitmqadmin is RabbitMQ's and not served here; it works with this API: take it from "
    "https://github.com/rabbitmq/rabbitmq-server (version 3: deps/rabbitmq_management/bin/rabbitmqadmin)"
)
CHANGES: Final = ("PUT", "POST", "DELETE")


def _fixed(get: Handler, refusal: Handler) -> dict[str, Handler]:
    return {"GET": get, **dict.fromkeys(CHANGES, refusal)}


def _policies(path: str, operator: bool) -> dict[str, dict[str, Handler]]:
    """Return the rows of policies, or of operator policies."""
    of_all = {"GET": policies.listing(operator)}
    of_one = {
        "GET": policies.showing(operator),
        "PUT": policies.setting(operator),
        "DELETE": policies.clearing(operator),
    }
    return {path: of_all, f"{path}/{{vhost}}": of_all, f"{path}/{{vhost}}/{{name}}": of_one}


PARAMETER: Final[dict[str, Handler]] = {
    "GET": policies.parameter,
    "PUT": policies.set_parameter,
    "DELETE": policies.clear_parameter,
}
BINDING: Final = "/bindings/{vhost}/e/{source}/{kind}/{destination}"

TABLE: Final[dict[str, dict[str, Handler]]] = {
    "/overview": {"GET": node.overview},
    "/cluster-name": _fixed(node.cluster_name, CLUSTER),
    "/nodes": {"GET": node.nodes},
    "/nodes/{name}": {"GET": node.node},
    "/extensions": {"GET": node.empty},
    "/feature-flags": {"GET": node.empty},
    "/deprecated-features": {"GET": node.empty},
    "/deprecated-features/used": {"GET": node.empty},
    "/auth": {"GET": node.auth},
    "/version": {"GET": node.version},
    "/whoami": {"GET": users.whoami},
    "/users": {"GET": users.users},
    "/users/bulk-delete": {"POST": users.delete_users},
    "/users/without-permissions": {"GET": users.users_without_permissions},
    "/users/{user}": {"GET": users.user, "PUT": users.put_user, "DELETE": users.delete_user},
    "/users/{user}/permissions": {"GET": permissions.permissions},
    "/users/{user}/topic-permissions": {"GET": permissions.topic_permissions},
    "/auth/hash_password/{password}": {"GET": users.password_hash},
    "/permissions": {"GET": permissions.permissions},
    "/permissions/{vhost}/{user}": {
        "GET": permissions.permission,
        "PUT": permissions.put_permission,
        "DELETE": permissions.delete_permission,
    },
    "/topic-permissions": {"GET": permissions.topic_permissions},
    "/topic-permissions/{vhost}/{user}": {
        "GET": permissions.topic_permissions,
        "PUT": permissions.put_topic_permission,
        "DELETE": permissions.delete_topic_permissions,
    },
    "/user-limits": {"GET": permissions.user_limits},
    "/user-limits/{user}": {"GET": permissions.user_limits},
    "/user-limits/{user}/{name}": {"PUT": permissions.put_user_limit, "DELETE": permissions.delete_user_limit},
    "/vhosts": {"GET": vhosts.vhosts},
    "/vhosts/{vhost}": {"GET": vhosts.vhost, "PUT": vhosts.declare_vhost, "DELETE": vhosts.delete_vhost},
    "/vhosts/{vhost}/permissions": {"GET": permissions.permissions},
    "/vhosts/{vhost}/topic-permissions": {"GET": permissions.topic_permissions},
    "/vhosts/{vhost}/connections": {"GET": listing.of_kind("connections")},
    "/vhosts/{vhost}/channels": {"GET": listing.of_kind("channels")},
    "/definitions": {"GET": vhosts.export, "POST": vhosts.import_},
    "/definitions/{vhost}": {"GET": vhosts.export, "POST": vhosts.import_},
    "/connections": {"GET": listing.of_kind("connections")},
    "/connections/{name}": {"GET": clients.connection, "DELETE": clients.close_connection},
    "/connections/{name}/channels": {"GET": clients.channels_of_connection},
    "/connections/username/{user}": {
        "GET": clients.connections_of_user,
        "DELETE": clients.close_connections_of_user,
    },
    "/channels": {"GET": listing.of_kind("channels")},
    "/channels/{name}": {"GET": clients.channel},
    "/consumers": {"GET": listing.of_kind("consumers")},
    "/consumers/{vhost}": {"GET": listing.of_kind("consumers")},
    "/queues": {"GET": topology.queues},
    "/queues/detailed": {"GET": topology.queues},
    "/queues/{vhost}": {"GET": topology.queues},
    "/queues/{vhost}/{name}": {
        "GET": topology.queue,
        "PUT": topology.declare_queue,
        "DELETE": topology.delete_queue,
    },
    "/queues/{vhost}/{name}/bindings": {"GET": topology.bindings_of_queue},
    "/queues/{vhost}/{name}/contents": {"DELETE": messages.purge},
    "/queues/{vhost}/{name}/get": {"POST": get_messages.get},
    "/queues/{vhost}/{name}/actions": {"POST": ACTIONS},
    "/exchanges": {"GET": listing.of_kind("exchanges")},
    "/exchanges/{vhost}": {"GET": listing.of_kind("exchanges")},
    "/exchanges/{vhost}/{name}": {
        "GET": topology.exchange,
        "PUT": topology.declare_exchange,
        "DELETE": topology.delete_exchange,
    },
    "/exchanges/{vhost}/{name}/bindings/source": {"GET": topology.bindings_from_exchange},
    "/exchanges/{vhost}/{name}/bindings/destination": {"GET": topology.bindings_to_exchange},
    "/exchanges/{vhost}/{name}/publish": {"POST": messages.publish},
    "/bindings": {"GET": listing.of_kind("bindings")},
    "/bindings/{vhost}": {"GET": listing.of_kind("bindings")},
    BINDING: {"GET": topology.bindings_between, "POST": topology.bind},
    BINDING + "/{key}": {"GET": topology.binding, "DELETE": topology.unbind},
    **_policies("/policies", False),
    **_policies("/operator-policies", True),
    "/parameters": {"GET": policies.parameters},
    "/parameters/{component}": {"GET": policies.parameters},
    "/parameters/{component}/{vhost}": {"GET": policies.parameters},
    "/parameters/{component}/{vhost}/{name}": PARAMETER,
    "/global-parameters": {"GET": policies.global_parameters},
    "/global-parameters/{name}": PARAMETER,
    "/vhost-limits": {"GET": permissions.vhost_limits},
    "/vhost-limits/{vhost}": {"GET": permissions.vhost_limits},
    "/vhost-limits/{vhost}/{name}": {"PUT": permissions.put_vhost_limit, "DELETE": permissions.delete_vhost_limit},
    "/aliveness-test/{vhost}": {"GET": health.aliveness},
    "/healthchecks/node": {"GET": health.alarms},
    "/health/checks/alarms": {"GET": health.alarms},
    "/health/checks/local-alarms": {"GET": health.alarms},
    "/health/checks/certificate-expiration/{within}/{unit}": {"GET": health.certificates},
    "/health/checks/port-listener/{port}": {"GET": health.port_listener},
    "/health/checks/protocol-listener/{protocol}": {"GET": health.protocol_listener},
    "/health/checks/virtual-hosts": {"GET": health.virtual_hosts},
    "/health/checks/ready": {"GET": health.ready},
    "/health/checks/ready-to-serve-clients": {"GET": health.ready},
    "/health/checks/is-in-service": {"GET": health.ready},
    "/health/checks/below-node-connection-limit": {"GET": health.connections},
    "/health/checks/node-is-quorum-critical": {"GET": health.alone},
    "/health/checks/node-is-mirror-sync-critical": {"GET": health.alone},
    "/penstock/why": {"GET": clients.why},
    "/penstock/events": {"GET": stream.events},
    "/penstock/history": {"GET": node.of_node},
    "/penstock/history/{vhost}": {"GET": node.of_vhost},
    "/penstock/history/{vhost}/{name}": {"GET": node.of_queue},
    "/penstock/block": {"POST": operator.block},
    "/penstock/unblock": {"POST": operator.unblock},
    "/penstock/settings": {
        "GET": operator.settings,
        "PUT": operator.set_settings,
        "DELETE": operator.unset_settings,
    },
    "/penstock/settings/preview": {"POST": operator.preview},
    "/penstock/cursors": {"GET": listing.of_kind("cursors")},
    "/penstock/cursors/{vhost}": {"GET": listing.of_kind("cursors")},
    "/penstock/cursors/{vhost}/{name}": {"GET": topology.cursor, "DELETE": topology.delete_cursor},
    "/penstock/cursors/{vhost}/{name}/move": {"POST": topology.move_cursor},
}
"""Routes below /api: RabbitMQ's paths and methods, and our own at the end."""


UNAUDITED: Final = frozenset(
    ("/queues/{vhost}/{name}/get", "/exchanges/{vhost}/{name}/publish", "/penstock/settings/preview")
)
"""Paths whose requests change nothing that an operator set up."""


def make_app(service: Service, scraped: metrics.MetricsService) -> ASGIApp:
    """Return the application: the routes of the API and of metrics, behind a login, and the pages of the console."""
    routes = [
        Route(f"/api{path}", _endpoint(service, path, handlers), methods=[*handlers])
        for path, handlers in sorted(TABLE.items(), key=_fixed_parts_first)
    ]
    routes += [
        Route(path, _endpoint(service, path, handlers), methods=[*handlers])
        for path, handlers in scraped.routes().items()
    ]
    none = {404: _after_login(service, _unknown), 405: _after_login(service, _wrong_method)}
    routes.append(Route("/cli/rabbitmqadmin", _no_rabbitmqadmin, methods=["GET"]))
    app = Starlette(routes=[*routes, *pages.routes()], exception_handlers=none)
    app.router.redirect_slashes = False
    return _Undecoded(app, service)


def _fixed_parts_first(row: tuple[str, Mapping[str, Handler]]) -> int:
    return row[0].count("{")  # Puts /connections/username/x before /connections/x/channels.


def _endpoint(service: Service, path: str, handlers: Mapping[str, Handler]) -> Callable[[Request], Awaitable[Response]]:
    event_loop = service.event_loop
    health = path.startswith(HEALTH_CHECKS)

    async def endpoint(http_request: Request) -> Response:
        try:
            await service.slices.pause(health)
            event_loop.driver.begin(event_loop.loop.time())
            method = "GET" if http_request.method == "HEAD" else http_request.method
            identity = await login(http_request, event_loop.driver)
            http_request.state.payer = identity.user
            if not health:
                await service.debts.rest(identity.user)
            refusal = refusal_of(identity.rules, path, method, http_request.path_params)
            if refusal is not None:
                actor = http_actor(http_request, identity.user)
                event_loop.driver.audit.refused(actor, f"{method} {path}", str(refusal))
                raise refusal
            room = http_request.state.socket.log_in()
            if not room and not health:
                raise HttpError(503, "service_unavailable", "all connections of users are busy", BUSY)
            request = ApiRequest(http_request, service, identity)
            promises = event_loop.driver.broker.durable_changes
            declared = promises.durable_declarations
            try:
                answer = await handlers[method](request)
                if method != "GET" and path not in UNAUDITED:
                    request.audit(f"{method} {path}")
            finally:
                request.end()
            if method != "GET" and promises.durable_declarations != declared:
                await _on_disk(service, declared)
            if not room:
                answer.headers["Connection"] = "close"
            return answer
        except HttpError as error:
            if error.status == 405:
                error.headers = {"Allow": ", ".join(name for name in handlers if name == "GET")}
            return error.answer()
        except BrokerError as error:
            return refused(error).answer()
        except RecursionError:
            return bad_request("nested too deeply").answer()
        except Exception as unexpected:
            return refused(service.driver.failures.report(f"{http_request.method} {path}", unexpected)).answer()

    return endpoint


def _after_login(service: Service, answer: Refusal) -> Refusal:
    """Return a handler for unknown paths and methods: strangers get the same answer as anywhere (401)."""

    async def refuse(http_request: Request, error: Exception) -> Response:
        try:
            await service.slices.pause()
            service.driver.begin(service.event_loop.loop.time())
            await login(http_request, service.driver)
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
        patience = f"{broker.defaults.hold_deadline_s:g} s"
        reason = f"the change is made, but not durable after {patience}, and may be lost: {why}"
        raise HttpError(503, "not_on_disk", reason) from None


def refused(error: BrokerError) -> HttpError:
    """Return the HTTP error for an error of the broker, in RabbitMQ's words."""
    return HttpError(error.http_status, STATUS_WORDS[error.http_status], str(error))


async def _unknown(http_request: Request, error: Exception) -> Response:
    return not_found().answer()


async def _no_rabbitmqadmin(http_request: Request) -> Response:
    return HttpError(404, "not_found", NO_RABBITMQADMIN).answer()


async def _wrong_method(http_request: Request, error: Exception) -> Response:
    headers = getattr(error, "headers", None)
    reason = f"{http_request.method} is not a method of this; it has {(headers or {}).get('Allow', 'none')}"
    return HttpError(405, "method_not_allowed", reason, headers).answer()


class _Undecoded:
    """Middleware that matches paths as they were sent: a slash in a name is %2F and separates nothing.

    An empty part is the default exchange, as rabbitmqadmin of RabbitMQ 4 names it (/exchanges/%2F//publish).

    It rejects a request with two kinds of length: a proxy may use the other one and see another request in the body
    (RFC 9112 section 6.1). An answer that breaks off after it has begun is not completed, and its connection is closed.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["raw_path"].decode("latin-1").rstrip("/") or "/"
            scope["path"] = path.replace("//", f"/{DEFAULT_EXCHANGE}/") if path.startswith("/api/") else path
            names = {name for name, _ in scope["headers"]}
            if b"content-length" in names and b"transfer-encoding" in names:
                reason = "a request has either Content-Length or Transfer-Encoding, not both"
                await HttpError(400, "bad_request", reason, {"Connection": "close"}).answer()(scope, receive, send)
                return
        try:
            await self._service.debts.timed(scope, self._app(scope, receive, send))
        except Exception as unexpected:
            self._service.driver.failures.report(f"{scope.get('method')} {scope.get('path')}", unexpected)
