"""Handlers for queues, exchanges and bindings: lists and details."""

from __future__ import annotations

from starlette.responses import Response

from penstock.describe.lists import Item, bindings_to, collected_steps
from penstock.describe.queue import queue_in_full
from penstock.describe.routing import EXCHANGE as EXCHANGE_TABLE
from penstock.operations.topology import destination
from penstock.server.http.listing import listed, listed_queues, one, reading_of
from penstock.server.http.request import (
    ApiRequest,
)


async def queues(request: ApiRequest) -> Response:
    """List queues, all or of a virtual host."""
    return await listed_queues(request, request.vhost_or_all())


async def queue(request: ApiRequest) -> Response:
    """Show a queue."""
    return one(request, queue_in_full(request.queue(), reading_of(request)))


async def exchange(request: ApiRequest) -> Response:
    """Show an exchange."""
    return one(request, EXCHANGE_TABLE.row(request.exchange(), reading_of(request)))


async def bindings_of_queue(request: ApiRequest) -> Response:
    """List the bindings that lead to a queue."""
    return await listed(request, bindings_to(request.vhost(), request.queue(), None), as_bindings=True)


async def bindings_from_exchange(request: ApiRequest) -> Response:
    """List the bindings that lead from an exchange."""
    source, vhost = request.exchange(), request.vhost()
    if source.name == "":
        items = await request.in_steps(collected_steps(request.driver, "queues", vhost))
    else:
        items = [Item(source.name, vhost, binding) for binding in source.bindings.values()]
    return await listed(request, items, as_bindings=True)


async def bindings_to_exchange(request: ApiRequest) -> Response:
    """List the bindings that lead to an exchange."""
    return await listed(request, bindings_to(request.vhost(), None, request.exchange()), as_bindings=True)


async def bindings_between(request: ApiRequest) -> Response:
    """List the bindings from an exchange to a queue or exchange."""
    return await listed(request, _between(request), as_bindings=True)


def _between(request: ApiRequest) -> list[Item]:
    vhost, source = request.vhost(), request.exchange("source")
    found, target = destination(vhost, request.part("kind"), request.part("destination"))
    if source.name == "":
        return [] if found is None else [Item(found.name, vhost, found)]
    return [
        Item(source.name, vhost, each)
        for each in source.bindings.values()
        if each.queue is found and each.exchange is target
    ]
