"""Routes of the rows of a block: found once for each exchange and routing key, as for single publishes."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.access.rules import ConnectionAccess
from penstock.connections.authorization import check_route
from penstock.content.message_columns import MessageColumns, OctetsColumn, text_of
from penstock.core.broker import Broker
from penstock.core.queue.cursor_state import NO_QUERY, QueryId
from penstock.core.routing.route import Route
from penstock.core.vhost import VirtualHost
from penstock.errors import AccessRefused
from penstock.ranges.sinks import check_no_cycle

ROUTES_KEPT: Final = 4096
"""Most routes that one block caches; at the bound all are dropped."""
_NO_KEY: Final = b""


class RowRoutes:
    """The routes of one block that a user publishes to a virtual host."""

    def __init__(self, broker: Broker, vhost: VirtualHost, columns: MessageColumns, access: ConnectionAccess) -> None:
        exchange, key = columns.texts.get("exchange"), columns.texts.get("routing_key")
        self._broker = broker
        self._vhost = vhost
        self._access = access
        self._epoch: i64 = access.epoch.count
        """Number of permission changes when the routes were checked."""
        self._exchange = exchange
        self._key = key
        self._one_route = (exchange is None or exchange.same) and (key is None or key.same)
        self._base: Route | None = None
        """Route of all rows; None if rows have different routes."""
        self._routes: dict[bytes, dict[bytes, Route]] = {}
        self._route_count: int = 0
        self.query: QueryId = NO_QUERY
        """Query whose results the rows are; otherwise a query without a name."""

    def first(self) -> Route:
        """Return an unresolved route of the exchange of all rows; of none if rows have different exchanges."""
        return self._vhost.route(_first(self._exchange), "", False)

    def find(self, row: i64) -> Route:
        """Return the route of a row, which is up to date. Raises AccessRefused (403), NotFound (404)."""
        if self._access.epoch.count != self._epoch:
            self._epoch = self._access.epoch.count
            self._base = None
            self._routes = {}
            self._route_count = 0
        route = self._base
        if route is None:
            route = self._look_up(row)
        if route.epoch != self._vhost.epoch:
            self._vhost.refresh_route(route)
        if route.control:
            raise AccessRefused(f"row {int(row)} is a control operation, which a block cannot carry")
        return route

    def check_again(self, route: Route) -> None:
        """Check that a row may still be published on its route. Raises AccessRefused (403)."""
        if self._access.epoch.count != self._epoch:
            check_route(self._access, self._vhost, route)

    def _look_up(self, row: i64) -> Route:
        exchange = _NO_KEY if self._exchange is None else self._exchange.short(row) or _NO_KEY
        key = _NO_KEY if self._key is None else self._key.short(row) or _NO_KEY
        routes = self._routes.get(exchange)
        if routes is None:
            routes = {}
            self._routes[exchange] = routes
        route = routes.get(key)
        if route is None:
            route = self._vhost.route(text_of(exchange, "exchange", row), text_of(key, "routing_key", row), False)
            check_route(self._access, self._vhost, route)
            self._vhost.resolve(route, {})
            if self.query.name:
                check_no_cycle(self._broker.pinned_rooms, self._vhost, self.query, route.queues)
            self._route_count += 1
            if self._route_count > ROUTES_KEPT:
                self._routes = {}
                self._route_count = 0
            else:
                routes[key] = route
            if self._one_route:
                self._base = route
        return route


def _first(exchange: OctetsColumn | None) -> str:
    """Return the exchange of all rows; empty if rows have different exchanges."""
    if exchange is None or not exchange.same or exchange.value is None:
        return ""
    return text_of(exchange.value, "exchange", 0)
