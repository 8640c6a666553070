"""Rows that only HTTP has: the paths whose handlers are written for HTTP, and are no operations."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import Route

from penstock.server.http.app import OWN, make_app
from penstock.server.http.console import pages
from penstock.server.http.metrics import PATHS, MetricsService
from penstock.server.http.request import Service
from tests.support.brokers import in_process

OWN_MOST = 8
"""Most rows of HTTP alone; metrics, and the files of the console, are one each."""
ROWS = {
    "GET /whoami": "the login of the request",
    "GET /auth/hash_password/{password}": "a hash with a random salt, without the broker",
    "GET /penstock/events": "a stream",
}
"""Rows by their first path, with the content that only HTTP has."""


def own_rows() -> set[str]:
    return {f"{row.method} {row.paths[0]}" for row in OWN}


async def paths_besides_the_api() -> set[str]:
    """Return the paths of the application that are not below /api."""
    async with in_process(http="127.0.0.1:0") as broker:
        loop = broker.shard.event_loop
        app = make_app(Service(loop), MetricsService(loop, 1, broker.driver.broker.pools))._app  # type: ignore[attr-defined]
        assert isinstance(app, Starlette)
        routes = [route for route in app.routes if isinstance(route, Route)]
        return {route.path for route in routes if not route.path.startswith("/api/")}


def test_rows_of_http_alone_are_named_and_few() -> None:
    assert own_rows() == set(ROWS)
    assert len(ROWS) + len(("metrics", "console files", "rabbitmqadmin")) <= OWN_MOST


async def test_paths_besides_the_api_are_metrics_and_files() -> None:
    files = {route.path for route in pages.routes()}
    assert await paths_besides_the_api() == {*PATHS, "/cli/rabbitmqadmin", *files}
