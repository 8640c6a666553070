"""From an exchange to queues: through bindings, other exchanges and alternate exchanges, each looked at once."""

from __future__ import annotations

from typing import Final

from penstock.core.binding import Binding
from penstock.core.exchange import Exchange
from penstock.core.queue import Queue
from penstock.core.route import Route

CONTROL_EXCHANGE: Final = "penstock.control"
"""Leads to the broker itself: control operations travel as ordinary publishes."""


class Search:
    """What is found on the way of one message, or of all that take the same route."""

    __slots__ = ("_exchanges", "_key", "_copies", "_headers", "_found", "_seen", "through", "by_headers")

    def __init__(self, exchanges: dict[str, Exchange], route: Route, headers: dict[str, object]) -> None:
        self._exchanges = exchanges
        self._key = route.address.routing_key
        self._copies = route.copies
        self._headers = headers
        self._found: list[Binding] = []
        self._seen: dict[Exchange, None] | None = None
        """The same as `through`, once there are two."""
        self.through: list[Exchange] = []
        """The exchanges that it came through, in the order in which they were found."""
        self.by_headers: bool = False
        """Whether one of them looks at headers."""

    def begin(self, exchange: Exchange) -> None:
        """Look at an exchange and at all that it leads to; a circle ends where it closes."""
        self.through.append(exchange)
        at = 0
        while at < len(self.through):
            self._look_at(self.through[at])
            at += 1

    def queues(self) -> list[Queue]:
        """Return the queues that were found, each once."""
        if len(self._found) == 1 and self._found[0].queue is not None:
            return [self._found[0].queue]
        queues: dict[Queue, None] = {}
        for binding in self._found:
            if binding.queue is not None:
                queues[binding.queue] = None
        return list(queues)

    def _look_at(self, exchange: Exchange) -> None:
        if exchange.by_headers:
            self.by_headers = True
        found = self._found
        before = len(found)
        exchange.match(self._key, self._headers, found)
        if self._copies is not None:
            for key in self._copies:
                exchange.match(key, self._headers, found)
        for index in range(before, len(found)):
            target = found[index].exchange
            if target is not None:
                self._reach(target)
        if len(found) == before and exchange.alternate is not None:
            target = self._exchanges.get(exchange.alternate)
            if target is not None:
                self._reach(target)

    def _reach(self, exchange: Exchange) -> None:
        if self._seen is None:
            self._seen = {self.through[0]: None}
        if exchange not in self._seen:
            self._seen[exchange] = None
            self.through.append(exchange)
