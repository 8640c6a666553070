"""Metrics and probes at an address of their own, without a login.

A standby also answers here: a scheduler sees that the standby is alive but not ready, and a scraper sees a standby.
Every client that reaches the address can read the names of queues and connections: use an address that only scrapers
reach.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from penstock.flow.pool import STRANGER
from penstock.management.operation import verdict
from penstock.server.event_loop import EventLoop
from penstock.server.http.metrics import PATHS, MetricsService
from penstock.server.http.request import HttpError, json_response, not_found


def status(reason: str = "") -> Response:
    """Answer 200, or 503 with a reason."""
    return json_response(verdict(reason), 503 if reason else 200)


Probe = Callable[[], Response]
"""Function that answers whether clients are served."""


def probe_app(event_loop: EventLoop, metrics: MetricsService, probe: Probe | None = None) -> ASGIApp:
    """Return the application of the listener for metrics; `probe` answers /ready for a node with shards."""

    async def live(http_request: Request) -> Response:
        """Answer 200: the process runs its event loop."""
        return status()

    async def ready(http_request: Request) -> Response:
        return status(event_loop.readiness.obstacle) if probe is None else probe()

    async def pause() -> None:
        """Yield to the broker, also to a standby."""
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
