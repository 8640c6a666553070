"""A virtual host as its gates and its dead letters see it."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import Exchange
from penstock.core.routing.route import Route


class Topology:
    """The queues and exchanges of one virtual host, and the lookup of routes. `VirtualHost` implements it."""

    name: str
    queues: dict[str, Queue]
    exchanges: dict[str, Exchange]
    epoch: i64
    """Counts changes of the topology; a route found in an older epoch is checked again."""

    def refresh_route(self, route: Route, from_within: bool = False) -> None:
        """Bring a cached route up to date with the topology; raises as `resolve` does.

        It is unchanged if nothing that it depends on has changed.
        """
        raise NotImplementedError

    def resolve(self, route: Route, headers: dict[str, object], from_within: bool = False) -> None:
        """Find the queues of a route in the present topology.

        Raises NotFound (404), AccessRefused (403) if internal, unless the broker itself publishes (`from_within`), and
        ResourceError (506) if it visits or reaches too much.
        """
        raise NotImplementedError
