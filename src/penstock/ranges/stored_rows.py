"""Rows of a block whose column `content` has messages as a broker stores them (docs/inside/blocks.md).

A content comes from a client, and is checked as a single publish is: its format reads priority, expiration and delivery
mode from it. The block names the target. The headers CC and BCC, and delays that the message asks for, have had their
effect where it was published first, and have none here. A user-id of another user is left out.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.rules import ConnectionAccess
from penstock.core.broker import Broker
from penstock.core.large_content import LARGE_OCTET
from penstock.core.message_format import MessageFormat, StoredContent
from penstock.core.routing.route import Route
from penstock.core.routing.topology import NO_HEADERS, resolve_message
from penstock.core.vhost import VirtualHost
from penstock.errors import PreconditionFailed
from penstock.flow.level import OVERHEAD
from penstock.flow.timers import NEVER
from penstock.ranges.block_rows import HEADERS_WORK, OCTETS_A_UNIT
from penstock.ranges.held_block import RowSource
from penstock.ranges.incoming_block import IncomingBlock
from penstock.ranges.row_routes import RowRoutes

NO_FORMAT: Final = -1


class StoredRows(RowSource):
    """The rows of a block that a user publishes to a virtual host, as contents."""

    def __init__(
        self, broker: Broker, vhost: VirtualHost, block: IncomingBlock, access: ConnectionAccess, most: i64
    ) -> None:
        """`most` is the largest message of the broker in bytes."""
        self.routes = RowRoutes(broker, vhost, block.columns, access)
        super().__init__(block.rows, self.routes.first())
        self._broker = broker
        self._vhost = vhost
        self._contents = block.columns
        self._user = access.user.encode()
        self._stored = StoredContent()
        self._most: i64 = most
        self._octet: i64 = NO_FORMAT
        """First byte of the last content."""
        self._format: MessageFormat = broker.formats.default
        """Format of the last content."""

    @override
    def load(self, row: i64) -> None:
        route = self.routes.find(row)
        content = self._contents.body(row)
        self._set_format(content, row)
        stored = self._stored
        try:
            self._format.check_stored(content, self._user, stored)
        except PreconditionFailed as error:
            raise PreconditionFailed(f"row {int(row)}: {error}") from None
        if stored.limited_bytes > self._most:
            raise PreconditionFailed(
                f"row {int(row)}: message size {int(stored.limited_bytes)} is larger than configured max size "
                f"{int(self._most)}"
            )
        if stored.persistent and route.checks_delivery_mode:
            route = route.persistent()
        self.content = stored.content
        self.charge = stored.charge + OVERHEAD
        if stored.expires_ms > 0:
            route = self._until(route, stored)
        elif stored.ttl_s != NEVER:
            route = route.variant(stored.priority, stored.ttl_s)
        elif stored.priority != route.envelope.priority:
            route = route.with_priority(stored.priority)
        self.route = route
        if self.charge > OCTETS_A_UNIT:
            self._broker.work.done += self.charge // OCTETS_A_UNIT
        if route.by_headers:
            self._route_by_headers(route)

    @override
    def check_again(self) -> None:
        self.routes.check_again(self.route)

    def _set_format(self, content: bytes, row: i64) -> None:
        """Find the format of a content. Raises PreconditionFailed (406) for a format that this broker does not know."""
        octet: i64 = content[0] if content else NO_FORMAT
        if octet == self._octet and octet != NO_FORMAT:
            return
        if octet == NO_FORMAT or octet == LARGE_OCTET or not self._broker.formats.knows(octet):
            first = "it has no byte" if octet == NO_FORMAT else f"its first byte is {int(octet)}"
            raise PreconditionFailed(
                f"row {int(row)}: a content of a format that this broker does not know: {first}; known are "
                f"{self._broker.formats.names()}. A newer version of Penstock may have stored it"
            )
        self._octet = octet
        self._format = self._broker.formats.by_octet(octet)

    def _until(self, route: Route, stored: StoredContent) -> Route:
        """Return the route of a message that expires at a time, or earlier by its time to live."""
        now = self._broker.now
        deadline = stored.expires_ms / 1000 - self._broker.wall_offset
        left_s = deadline - now if deadline > now else 0.0
        return route.until(stored.priority, stored.ttl_s if stored.ttl_s < left_s else left_s, deadline)

    def _route_by_headers(self, route: Route) -> None:
        """Find the queues of a row by its headers. Raises ResourceError (506) as a single publish does."""
        self._broker.work.done += HEADERS_WORK
        own = Route(route.envelope, False)
        headers = self._format.headers(self.content) if route.target.reads_headers else NO_HEADERS
        resolve_message(self._vhost, own, headers, self.content, self._format)
        if own.target.reads_headers and not route.target.reads_headers:  # Chance has led to an exchange of headers.
            resolve_message(self._vhost, own, self._format.headers(self.content), self.content, self._format)
        self.charge += own.envelope.charge()
        self.route = own
