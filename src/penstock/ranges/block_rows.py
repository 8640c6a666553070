"""Rows of a block as messages: their routes, found as for single publishes, and their contents."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.rules import ConnectionAccess
from penstock.connections.authorization import check_route
from penstock.content.message_columns import OctetsColumn, text_of
from penstock.content.properties import BCC, CC
from penstock.core.broker import Broker
from penstock.core.queue.cursor_state import NO_QUERY, QueryId
from penstock.core.routing.route import PERSISTENT, Route, expiration_s, route_with_copies
from penstock.core.routing.topology import resolve_message
from penstock.core.vhost import REPLY_TO, VirtualHost
from penstock.errors import AccessRefused, PreconditionFailed
from penstock.ranges.held_block import RowSource
from penstock.ranges.incoming_block import IncomingBlock
from penstock.ranges.sinks import check_no_cycle

ROUTES_KEPT: Final = 4096
"""Most routes that one block caches; at the bound all are dropped."""
OCTETS_A_UNIT: Final = 2048
"""Bytes of a row per unit of work, in addition to the work of each row."""
HEADERS_WORK: Final = 10
"""Units of work to encode the headers of a row."""
_DIRECT_REPLY: Final = REPLY_TO.encode()
_NO_KEY: Final = b""


class BlockRows(RowSource):
    """The rows of a block that a user publishes to a virtual host."""

    def __init__(self, broker: Broker, vhost: VirtualHost, block: IncomingBlock, access: ConnectionAccess) -> None:
        columns = block.columns
        exchange, key = columns.texts.get("exchange"), columns.texts.get("routing_key")
        super().__init__(block.rows, vhost.route(_first(exchange), "", False))
        self._broker = broker
        self._vhost = vhost
        self._columns = columns
        self._access = access
        self._user = access.user.encode()
        self._access_epoch: i64 = access.epoch.count
        """Number of permission changes when the routes were checked."""
        self._encoder = broker.formats.default.row_encoder(columns)
        self._exchange = exchange
        self._key = key
        self._one_route = (exchange is None or exchange.same) and (key is None or key.same)
        self._base: Route | None = None
        """Route of all rows; None if rows have different routes."""
        self._routes: dict[bytes, dict[bytes, Route]] = {}
        self._route_count: int = 0
        self.query: QueryId = NO_QUERY
        """Query whose results the rows are; otherwise a query without a name."""
        self._checked = "user_id" in columns.texts or "reply_to" in columns.texts
        self._has_headers = columns.has_headers()
        self._has_variants = columns.priority is not None or "expiration" in columns.texts

    @override
    def load(self, row: i64) -> None:
        if self._checked:
            self._check(row)
        if self._access.epoch.count != self._access_epoch:
            self._access_epoch = self._access.epoch.count
            self._base = None
            self._routes = {}
            self._route_count = 0
        route = self._base
        if route is None:
            route = self._route_of(row)
        if route.epoch != self._vhost.epoch:
            self._vhost.refresh_route(route)
        if route.control:
            raise AccessRefused(f"row {int(row)} is a control operation, which a block cannot carry")
        mode = self._columns.delivery_mode
        if mode is not None and route.checks_delivery_mode and mode.number(row) == PERSISTENT:
            route = route.persistent()
        if self._has_variants:
            route = self._variant(route, row)
        self.content = self._encoder.encode(row)
        self.charge = self._encoder.charge
        self.route = route
        if self.charge > OCTETS_A_UNIT:
            self._broker.work.done += self.charge // OCTETS_A_UNIT
        if self._has_headers or route.by_headers:
            self._route_by_headers(route, row)

    @override
    def check_again(self) -> None:
        if self._access.epoch.count != self._access_epoch:
            check_route(self._access, self._vhost, self.route)

    def _check(self, row: i64) -> None:
        """Check the properties that a client may not set freely, such as the user ID.

        Raises PreconditionFailed (406), as for single publishes.
        """
        texts = self._columns.texts
        column = texts.get("user_id")
        user = None if column is None else column.octets(row)
        if user is not None and user != self._user:
            raise PreconditionFailed(
                f"row {int(row)}: user_id property set to '{user.decode(errors='replace')}' but authenticated user was "
                f"'{self._user.decode()}'"
            )
        column = texts.get("reply_to")
        if column is not None and column.octets(row) == _DIRECT_REPLY:
            raise PreconditionFailed(f"row {int(row)}: fast reply consumer does not exist")

    def _route_of(self, row: i64) -> Route:
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

    def _variant(self, route: Route, row: i64) -> Route:
        column = self._columns.priority
        priority = 0 if column is None else column.number(row) or 0
        text = self._columns.texts.get("expiration")
        expiration = None if text is None else text.short(row)
        if expiration is None:
            return route.with_priority(priority)
        return route.variant(priority, expiration_s(expiration))

    def _route_by_headers(self, route: Route, row: i64) -> None:
        """Find the queues of a row by its headers, and by its CC and BCC. Raises PreconditionFailed (406)."""
        headers = self._columns.headers(row) or {}
        self._broker.work.done += HEADERS_WORK
        copied = route_with_copies(route, headers) if CC in headers or BCC in headers else None
        if copied is None and not route.by_headers:
            return
        own = Route(route.envelope, False) if copied is None else copied
        if copied is not None:
            check_route(self._access, self._vhost, copied)
        message_format = self._broker.formats.default
        resolve_message(self._vhost, own, headers, self.content, message_format)
        if BCC in headers:
            properties = self._columns.properties(row)
            properties.headers = {name: value for name, value in headers.items() if name != BCC}
            self.content = message_format.encode(properties, self._columns.body(row))
        self.charge += own.envelope.charge()
        self.route = own


def _first(exchange: OctetsColumn | None) -> str:
    """Return the exchange of all rows; empty if rows have different exchanges."""
    if exchange is None or not exchange.same or exchange.value is None:
        return ""
    return text_of(exchange.value, "exchange", 0)
