"""Metrics and probes at an address of their own (`metrics-listen`): no login, and open from the start of the process.

A standby answers here too, so that a scheduler knows it for alive but not ready, and a scraper sees it stand by. The
address tells names of queues and connections to everybody who reaches it: choose one that only scrapers reach.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from penstock.server.event_loop import EventLoop
from penstock.server.http.metrics import PATHS, MetricsService
from penstock.server.http.request import HttpError, json_response, not_found


def readiness(event_loop: EventLoop) -> Response:
    """Answer whether clients are served: 200, or 503 with the reason why not yet, or no more."""
    if event_loop.readiness.obstacle:
        return json_response({"status": "failed", "reason": event_loop.readiness.obstacle}, 503)
    return json_response({"status": "ok"})


class ProbeApp:
    """Application of the listener for metrics."""

    def __init__(self, event_loop: EventLoop, metrics: MetricsService) -> None:
        self._event_loop = event_loop
        self._metrics = metrics

    def make(self) -> ASGIApp:
        """Return the application."""
        routes = [Route("/live", self._live, methods=["GET"]), Route("/ready", self._ready, methods=["GET"])]
        routes += [Route(path, self._scraped(path), methods=["GET"]) for path in PATHS]
        return Starlette(routes=routes, exception_handlers={404: _unknown})

    async def _live(self, http_request: Request) -> Response:
        """Answer that the process runs its event loop."""
        return json_response({"status": "ok"})

    async def _ready(self, http_request: Request) -> Response:
        return readiness(self._event_loop)

    def _scraped(self, path: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(http_request: Request) -> Response:
            await self._pause()
            try:
                if not http_request.state.socket.log_in():
                    raise HttpError(503, "service_unavailable", "all sockets are busy", {"Retry-After": "1"})
                return await self._metrics.answer(http_request, path, self._pause)
            except HttpError as error:
                return error.answer()

        return answer

    async def _pause(self) -> None:
        """Let the broker work; also while it stands by."""
        await self._event_loop.slices.pause()
        self._event_loop.driver.begin(self._event_loop.loop.time())


async def _unknown(http_request: Request, error: Exception) -> Response:
    return not_found().answer()
