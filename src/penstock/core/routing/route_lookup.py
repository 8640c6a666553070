"""The lookup from an exchange to queues: through bindings and alternate exchanges, each exchange visited once."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.content.selector.fields import PatternsTooCostly, SelectableMessage
from penstock.content.selector.selector import Selector
from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import Binding
from penstock.core.routing.exchange import Exchange
from penstock.core.routing.route import Route
from penstock.errors import ResourceError

CONTROL_EXCHANGE: Final = "penstock.control"
"""The exchange of control operations, which are ordinary publishes to the broker itself."""


VISITS_MAX: Final = 20_000
"""Bindings, and parts of their indexes, visited for one message: a few milliseconds."""
HOPS_MAX: Final = 256
"""Exchanges visited for one message."""
TARGETS_MAX: Final = 4_000
"""Queues of one message."""
VISITS_A_UNIT: Final = 8
"""Visits counted as a unit of work."""


class RouteLookup:
    """One lookup, for a message or for all messages of a route.

    Raises ResourceError (506) at a limit, which bounds the cost of one message.
    """

    __slots__ = (
        "_exchanges",
        "_route",
        "_key",
        "_copies",
        "_headers",
        "_found",
        "_seen",
        "_left",
        "through",
        "by_headers",
        "selects",
        "_message",
    )

    def __init__(
        self,
        exchanges: dict[str, Exchange],
        route: Route,
        headers: dict[str, object],
        message: SelectableMessage | None = None,
    ) -> None:
        self._exchanges = exchanges
        self._route = route
        self._left: i64 = VISITS_MAX
        self._key = route.envelope.routing_key
        self._copies = route.copies
        self._headers = headers
        self._found: list[Binding] = []
        self._seen: dict[Exchange, None] | None = None
        """Set of `through`, once it has two members."""
        self.through: list[Exchange] = []
        """The exchanges visited, in order."""
        self.by_headers: bool = False
        """True if one of them compares headers, or a binding has a selector."""
        self.selects: bool = False
        """True if a binding has a selector."""
        self._message = message
        """The message, for selectors; None if it is not known yet: then they all match."""

    def begin(self, exchange: Exchange) -> None:
        """Visit an exchange and everything that it leads to; a cycle is visited once."""
        self.through.append(exchange)
        at = 0
        while at < len(self.through):
            self._lookup(self.through[at])
            at += 1

    def work(self) -> i64:
        """Return the units of work used."""
        return (VISITS_MAX - self._left) // VISITS_A_UNIT

    def queues(self) -> list[Queue]:
        """Return the queues found, each once."""
        queues: dict[Queue, None] = {}
        for binding in self._found:
            # The bindings of a deleted queue may be removed after it.
            if binding.queue is not None and not binding.queue.deleted:
                queues[binding.queue] = None
        if len(queues) > TARGETS_MAX:
            raise self._too_much(f"go into {len(queues)} queues; {TARGETS_MAX} is the most")
        return list(queues)

    def _too_much(self, what: str) -> ResourceError:
        address = self._route.envelope
        return ResourceError(
            f"publish to exchange '{address.exchange}' with routing key '{address.routing_key}' refused: "
            f"it would {what}"
        )

    def _match(self, exchange: Exchange, key: str) -> None:
        self._left -= exchange.match(key, self._headers, self._found, self._left)
        if self._left < 0:
            self._left = 0
            raise self._too_much(
                f"visit more than {VISITS_MAX} bindings, or branches of their patterns, on its way to its queues "
                f"(at exchange '{exchange.name}')"
            )

    def _lookup(self, exchange: Exchange) -> None:
        if exchange.by_headers:
            self.by_headers = True
        found = self._found
        before = len(found)
        self._match(exchange, self._key)
        if self._copies is not None:
            for key in self._copies:
                self._match(exchange, key)
        self._select(before)
        for index in range(before, len(found)):
            target = found[index].exchange
            if target is not None:
                self._visit(target)
        if len(found) == before and exchange.alternate is not None:
            target = self._exchanges.get(exchange.alternate)
            if target is not None:
                self._visit(target)

    def _select(self, before: int) -> None:
        """Drop the bindings found from an index on whose selector does not match."""
        found = self._found
        for index in range(len(found) - 1, before - 1, -1):
            selector = found[index].selector
            if selector is None:
                continue
            self.selects = True
            self.by_headers = True
            if self._message is not None:
                self._left -= (1 + selector.work) * VISITS_A_UNIT
                if self._left < 0:
                    self._left = 0
                    raise self._too_much("evaluate too many selectors of bindings on its way to its queues")
                if not self._matches(selector, self._message):
                    del found[index]

    def _matches(self, selector: Selector, message: SelectableMessage) -> bool:
        most = self._left // VISITS_A_UNIT
        try:
            matches = selector.matches(message, most)
        except PatternsTooCostly:
            self._left = 0
            raise self._too_much("search too much text for the patterns of its bindings' selectors") from None
        self._left -= (most - message.work_left) * VISITS_A_UNIT
        return matches

    def _visit(self, exchange: Exchange) -> None:
        if self._seen is None:
            self._seen = {self.through[0]: None}
        if exchange not in self._seen and not exchange.deleted:
            if len(self.through) >= HOPS_MAX:
                raise self._too_much(f"go through more than {HOPS_MAX} exchanges, the most")
            self._seen[exchange] = None
            self.through.append(exchange)
