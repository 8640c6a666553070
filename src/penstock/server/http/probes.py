"""Health checks under RabbitMQ's paths, and metrics and probes at an address of their own, without a login.

A standby answers here too, so that a scheduler sees that it is alive but not ready, and a scraper sees that it is a
standby. Everybody who reaches the address can read the names of queues and connections: choose one that only scrapers
reach.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from penstock.flow.pool import STRANGER
from penstock.server.event_loop import EventLoop
from penstock.server.http.metrics import PATHS, MetricsService
from penstock.server.http.request import ApiRequest, HttpError, bad_request, json_response, not_found

PROTOCOLS: Final = ("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp")
UNITS_S: Final = {"days": 86_400, "weeks": 7 * 86_400, "months": 365 * 7_200, "years": 365 * 86_400}
"""Units of `certificate-expiration` in seconds; a month is a twelfth of a year."""
NUMBER_MOST: Final = 9
"""Most digits of a number in a path."""


def status(reason: str = "", **named: object) -> Response:
    """Answer 200, or with a reason 503."""
    verdict = {"status": "failed", "reason": reason} if reason else {"status": "ok"}
    return json_response({**verdict, **named}, 503 if reason else 200)


async def ready(request: ApiRequest) -> Response:
    """Report whether clients are served."""
    return status(request.event_loop.readiness.obstacle)


async def virtual_hosts(request: ApiRequest) -> Response:
    """Report whether all virtual hosts run: one that is being deleted does not."""
    down = [vhost.name for vhost in request.driver.broker.vhosts.values() if vhost.deleting]
    return status("Some virtual hosts are down", **{"virtual-hosts": down}) if down else status()


async def connections(request: ApiRequest) -> Response:
    """Report whether there are fewer connections than `connections-max` permits."""
    most = request.driver.connection_limits.connections_max
    current = len(request.driver.connections)
    reason = "connection limit reached" if 0 < most <= current else ""
    return status(reason, current=current, limit=most or "infinity")


async def certificates(request: ApiRequest) -> Response:
    """Report whether a certificate of TLS ends within a time, or has ended: days, weeks, months or years."""
    within, unit = request.part("within"), request.part("unit")
    if unit not in UNITS_S:
        raise bad_request(f"the unit must be one of {', '.join(UNITS_S)}, not '{unit[:NUMBER_MOST]}'")
    if not within.isdecimal() or len(within) > NUMBER_MOST:
        raise bad_request("Invalid expiration period: it must be a whole number")
    until = time.time() + int(within) * UNITS_S[unit]
    ending = [
        {"certfile": file, "name": name or None, "certfile_expires_on": [datetime.fromtimestamp(ends, UTC).isoformat()]}
        for file, name, ends in request.driver.certificates.ends()
        if ends <= until
    ]
    return status("Certificates expiring", expired=ending) if ending else status()


async def alone(request: ApiRequest) -> Response:
    """Report that no other node depends on this one."""
    return json_response({"status": "ok", "reason": "single node cluster"})


async def aliveness(request: ApiRequest) -> Response:
    """Report whether a virtual host exists."""
    request.access(request.live_vhost())
    return status()


async def alarms(request: ApiRequest) -> Response:
    """Report whether the node's memory gate, or a disk gate, is closed: RabbitMQ's alarms."""
    closed = [("memory", request.driver.memory_alarm()), ("disk", request.driver.disk_alarm())]
    rows = [{"node": request.driver.name, "resource": resource} for resource, alarm in closed if alarm]
    return status("There are alarms in effect", alarms=rows) if rows else status()


async def port_listener(request: ApiRequest) -> Response:
    """Report whether a port has a listener."""
    wanted = request.part("port")
    if not wanted.isdecimal() or len(wanted) > 5:
        raise bad_request("Invalid port")
    ports = [port for _, _, port in request.event_loop.listeners]
    if int(wanted) in ports:
        return status(port=int(wanted))
    return status("No active listener", missing=int(wanted), ports=ports)


async def protocol_listener(request: ApiRequest) -> Response:
    """Report whether a protocol has a listener."""
    wanted = request.part("protocol")
    protocol = "amqp" if wanted.lower() in PROTOCOLS else wanted
    spoken = sorted({each for each, _, _ in request.event_loop.listeners})
    if protocol in spoken:
        return status(protocol=protocol)
    return status("No active listener", missing=wanted, protocols=spoken)


def probe_app(event_loop: EventLoop, metrics: MetricsService) -> ASGIApp:
    """Return the application of the listener for metrics."""

    async def live(http_request: Request) -> Response:
        """Answer that the process runs its event loop."""
        return status()

    async def ready(http_request: Request) -> Response:
        return status(event_loop.readiness.obstacle)

    async def pause() -> None:
        """Let the broker work; also while it stands by."""
        await event_loop.slices.pause()
        event_loop.driver.begin(event_loop.loop.time())

    async def scrape(http_request: Request) -> Response:
        await pause()
        try:
            if not http_request.state.socket.log_in(STRANGER):
                raise HttpError(503, "service_unavailable", "all sockets are busy", {"Retry-After": "1"})
            return await metrics.answer(http_request, pause, STRANGER)
        except HttpError as error:
            return error.answer()

    async def unknown(http_request: Request, error: Exception) -> Response:
        return not_found().answer()

    endpoints = {"/live": live, "/ready": ready, **dict.fromkeys(PATHS, scrape)}
    routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in endpoints.items()]
    return Starlette(routes=routes, exception_handlers={404: unknown})
