"""Handlers for histories: rates, depths and gates of the last 24 hours."""

from __future__ import annotations

from starlette.responses import Response

from penstock.describe import history
from penstock.describe.table import Row
from penstock.flow.series import TIERS
from penstock.server.http.listing import one
from penstock.server.http.request import ApiRequest, bad_request


async def of_queue(request: ApiRequest) -> Response:
    """Show the history of a queue."""
    tiers: list[Row] = []
    for tier in _tiers(request):
        tiers.append(history.of_queue(request.queue(), request.driver, tier))
        await request.pause()
    return one(request, {"queue": request.part("name"), "vhost": request.vhost().name, "tiers": tiers})


async def of_vhost(request: ApiRequest) -> Response:
    """Show the history of a virtual host."""
    name = request.vhost().name
    return one(request, {"vhost": name, "tiers": _sums(request, name)})


async def of_node(request: ApiRequest) -> Response:
    """Show the history of the node."""
    return one(request, {"node": request.driver.name, "tiers": _sums(request, None)})


def _sums(request: ApiRequest, vhost: str | None) -> list[Row]:
    stats = request.driver.stats
    counted = stats.node if vhost is None else stats.vhosts.get(vhost)
    return [history.of_sum(counted, request.driver, tier) for tier in _tiers(request)]


def _tiers(request: ApiRequest) -> list[int]:
    """Return the tiers that the query asks for by the seconds of their entries; all by default."""
    wanted = request.query.get("seconds")
    if wanted is None:
        return list(range(len(TIERS)))
    found = [tier for tier, seconds in enumerate(history.STEPS_S) if wanted == str(seconds)]
    if not found:
        raise bad_request(f"seconds must be one of {', '.join(map(str, history.STEPS_S))}, not {wanted}")
    return found
