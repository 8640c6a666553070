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

    def __init__(self, exchanges: dict[str, Exchange], route: Route, headers: dict[str, object]) -> None:
        self._exchanges = exchanges
        self._key = route.address.routing_key
        self._copies = route.copies
        self._headers = headers
        self._seen: dict[Exchange, None] = {}
        self.through: list[Exchange] = []
        """The exchanges that it came through, in the order in which they were found."""
        self.queues: dict[Queue, None] = {}
        self.by_headers: bool = False
        """Whether one of them looks at headers."""

    def begin(self, exchange: Exchange) -> None:
        """Look at an exchange and at all that it leads to; a circle ends where it closes."""
        self._reach(exchange)
        at = 0
        while at < len(self.through):
            self._look_at(self.through[at])
            at += 1

    def _look_at(self, exchange: Exchange) -> None:
        if exchange.by_headers:
            self.by_headers = True
        found: list[Binding] = []
        exchange.match(self._key, self._headers, found)
        if self._copies is not None:
            for key in self._copies:
                exchange.match(key, self._headers, found)
        for binding in found:
            if binding.queue is not None:
                self.queues[binding.queue] = None
            elif binding.exchange is not None:
                self._reach(binding.exchange)
        if not found and exchange.alternate is not None:
            alternate = self._exchanges.get(exchange.alternate)
            if alternate is not None:
                self._reach(alternate)

    def _reach(self, exchange: Exchange) -> None:
        if exchange not in self._seen:
            self._seen[exchange] = None
            self.through.append(exchange)
