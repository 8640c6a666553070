"""Interface of a virtual host for gates and dead letters."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.content.selector.fields import SelectableMessage
from penstock.core.message_format import MessageFormat
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import Exchange
from penstock.core.routing.route import Route


class Topology:
    """The queues and exchanges of one virtual host, and the lookup of routes. `VirtualHost` implements it."""

    name: str
    queues: dict[str, Queue]
    exchanges: dict[str, Exchange]
    epoch: i64
    """Number of changes of the topology; a route found in an older epoch is checked again."""

    def refresh_route(self, route: Route, from_within: bool = False) -> None:
        """Bring a cached route up to date with the topology; raises as `resolve` does.

        The route does not change if its exchanges and queues have not changed.
        """
        raise NotImplementedError

    def resolve(
        self,
        route: Route,
        headers: dict[str, object],
        from_within: bool = False,
        message: SelectableMessage | None = None,
    ) -> None:
        """Find the queues of a route in the present topology.

        `message` is for selectors of bindings; without a message all selectors match. Raises NotFound (404),
        AccessRefused (403) if internal, unless the broker itself publishes (`from_within`), and ResourceError (506) if
        the lookup visits or reaches too many objects.
        """
        raise NotImplementedError


NO_HEADERS: Final[dict[str, object]] = {}
"""The headers of a message that no exchange reads; never changed."""


def resolve_message(
    topology: Topology,
    route: Route,
    headers: dict[str, object],
    content: bytes,
    message_format: MessageFormat,
    from_within: bool = False,
) -> None:
    """Find the queues of one message, by its headers and by selectors of bindings. Raises as `Topology.resolve`."""
    topology.resolve(route, headers, from_within)
    if route.selects:
        topology.resolve(route, headers, from_within, message_format.fields(content))
