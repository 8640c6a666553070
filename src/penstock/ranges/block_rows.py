"""Rows of a block as messages: their routes, found as for single publishes, and their contents."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.rules import ConnectionAccess
from penstock.connections.authorization import check_route
from penstock.content.properties import BCC, CC
from penstock.core.broker import Broker
from penstock.core.routing.route import PERSISTENT, Route, expiration_s, route_with_copies
from penstock.core.routing.topology import resolve_message
from penstock.core.vhost import REPLY_TO, VirtualHost
from penstock.errors import PreconditionFailed
from penstock.ranges.held_block import RowSource
from penstock.ranges.incoming_block import IncomingBlock
from penstock.ranges.row_routes import RowRoutes

OCTETS_A_UNIT: Final = 2048
"""Bytes of a row per unit of work, in addition to the work of each row."""
HEADERS_WORK: Final = 10
"""Units of work to encode the headers of a row."""
_DIRECT_REPLY: Final = REPLY_TO.encode()


class BlockRows(RowSource):
    """The rows of a block that a user publishes to a virtual host, with their properties in columns."""

    def __init__(self, broker: Broker, vhost: VirtualHost, block: IncomingBlock, access: ConnectionAccess) -> None:
        columns = block.columns
        self.routes = RowRoutes(broker, vhost, columns, access)
        super().__init__(block.rows, self.routes.first())
        self._broker = broker
        self._vhost = vhost
        self._columns = columns
        self._access = access
        self._user = access.user.encode()
        self._encoder = broker.formats.default.row_encoder(columns)
        self._checked = "user_id" in columns.texts or "reply_to" in columns.texts
        self._has_headers = columns.has_headers()
        self._has_variants = columns.priority is not None or "expiration" in columns.texts

    @override
    def load(self, row: i64) -> None:
        if self._checked:
            self._check(row)
        route = self.routes.find(row)
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
        self.routes.check_again(self.route)

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
