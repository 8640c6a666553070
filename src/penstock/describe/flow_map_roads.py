"""Roads of a flow map: from producers to exchanges, and from exchanges to queues with the keys of their bindings.

Theory of operation. No publish is counted for a road. Samples of the arrivals of a queue name the publisher and the
exchange of a message (core/queue/counters.py). `Shares` averages them over a few maps. The rate of a road is its share
of the arrivals of its queue, which are counted exactly. Without a sample the exchange of a blocked producer is the one
of its last publish that met a closed gate, or the only exchange with a binding to the queue.

A message that reaches its queue by way of several exchanges is on the road of the first one. That road has no key.
"""

from __future__ import annotations

from typing import Final

from penstock.core.queue.counters import Sender
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import QUEUE, Binding, Exchange
from penstock.core.vhost import VirtualHost
from penstock.describe.table import DescribedNode
from penstock.flow.gate import Gate

EXCHANGES_SHOWN: Final = 24
"""Most exchanges of a map. Roads through further ones have no exchange."""
BINDINGS_LOOKED_AT: Final = 100
"""Most bindings of one queue that are examined for keys."""
KEYS_EACH: Final = 3
"""Most keys of one road."""
KEY_LETTERS: Final = 60
"""Most characters of a key; a longer one is cut, and ends with an ellipsis."""
DECAY: Final = 0.5
"""Part of the former samples that counts in the next map: after six maps a sender that has stopped is forgotten."""
LEAST_SHARE: Final = 1 / 64
"""Share of the samples below which a sender is forgotten."""

Shares = dict[Sender, float]
"""Sampled messages by publisher and exchange, averaged over the last maps."""


def blended(before: Shares, fresh: dict[Sender, int]) -> Shares:
    """Return the average of former and fresh samples. Without fresh ones nothing has arrived, and nothing changes."""
    if not fresh:
        return before
    sums = {sender: weight * DECAY for sender, weight in before.items()}
    for sender, messages in fresh.items():
        sums[sender] = sums.get(sender, 0.0) + messages
    least = sum(sums.values()) * LEAST_SHARE
    return {sender: weight for sender, weight in sums.items() if weight >= least}


def gate_id(gate: Gate) -> str:
    """Return the id of a gate in a map."""
    return f"g{id(gate)}"


class Published:
    """Counts of the shown exchanges in the previous map."""

    def __init__(self) -> None:
        self.messages: dict[Exchange, int] = {}


class Roads:
    """Exchanges and roads of one map."""

    def __init__(self, node: DescribedNode, before: Published, seconds: float) -> None:
        """`before` are the counts of the previous map, `seconds` ago (0 without one)."""
        self._node = node
        self._before = before
        self._seconds = seconds
        self.published = Published()
        """Counts for the next map."""
        self._ids: dict[Exchange, str] = {}
        self._more: set[Exchange] = set()
        """Exchanges for which there was no room."""
        self._exchanges: list[dict[str, object]] = []
        self._routes: list[dict[str, object]] = []
        self._edges: list[dict[str, object]] = []

    def as_dict(self) -> dict[str, object]:
        """Return the exchanges, `routes` from exchanges to queues, and `edges` from producers to queues."""
        return {"exchanges": self._exchanges, "more_exchanges": len(self._more), "routes": self._routes,
                "edges": self._edges}  # fmt: skip

    def closed_gates(self) -> list[Gate]:
        """Return the gates of the shown exchanges that are closed or block somebody."""
        return [gate for exchange in self._ids for gate in _closed(exchange)]

    def add_routes(self, queue: Queue, number: str, in_rate: float, shares: Shares, stopped: list[str]) -> None:
        """Add the roads to a queue: those of its samples, and of exchanges whose publishes were `stopped`.

        `number` is the id of the queue, `in_rate` its messages per second. A queue without such roads has one of the
        first exchange with a binding to it.
        """
        by_exchange: dict[str, float] = {}
        for (_, exchange), weight in shares.items():
            by_exchange[exchange] = by_exchange.get(exchange, 0.0) + weight
        total = sum(by_exchange.values())
        vhost = self._node.broker.vhosts.get(queue.vhost)
        if vhost is None:
            return
        bindings, more = vhost.bindings.first_to(QUEUE, queue.name, BINDINGS_LOOKED_AT)
        for name in dict.fromkeys(stopped):
            by_exchange.setdefault(name, 0.0)
        if not by_exchange:
            by_exchange[bindings[0].source.name if bindings else ""] = 0.0
        for name, weight in by_exchange.items():
            found = self.exchange_id(queue.vhost, name)
            if found is not None:
                keys = _keys(bindings, name) if name else [_cut(queue.name)]
                rate = round(in_rate * weight / total, 1) if total else None
                self._routes.append({"exchange": found, "queue": number, "rate": rate, "keys": keys[:KEYS_EACH],
                                     "more_keys": max(len(keys) - KEYS_EACH, 0),
                                     "more_bindings": max(more - BINDINGS_LOOKED_AT, 0)})  # fmt: skip

    def add_edge(self, producer: str, vhost: str, exchange: str | None, queue: str | None, rate: float | None) -> None:
        """Add a road of a producer, to a queue if that is known; without samples the rate is None."""
        found = None if exchange is None else self.exchange_id(vhost, exchange)
        shown = None if rate is None else round(rate, 1)
        self._edges.append({"producer": producer, "exchange": found, "queue": queue, "rate": shown})

    def leads(self, producer: str) -> bool:
        """Return whether a producer has a road already."""
        return any(edge["producer"] == producer for edge in self._edges)

    def sole_source(self, queue: Queue) -> str | None:
        """Return the only exchange by which messages reach a queue, "" for the default one; None for several."""
        vhost = self._node.broker.vhosts.get(queue.vhost)
        if vhost is None:
            return None
        bindings, more = vhost.bindings.first_to(QUEUE, queue.name, BINDINGS_LOOKED_AT)
        sources = {binding.source.name for binding in bindings}
        if not sources:
            return ""
        return sources.pop() if len(sources) == 1 and more <= BINDINGS_LOOKED_AT else None

    def exchange_id(self, vhost: str, name: str) -> str | None:
        """Return the id of an exchange, which is shown from now on; None if it is gone, or one too many."""
        exchange = self._find(vhost, name)
        if exchange is None:
            return None
        known = self._ids.get(exchange)
        if known is not None:
            return known
        if len(self._ids) >= EXCHANGES_SHOWN:
            self._more.add(exchange)
            return None
        number = f"e{id(exchange)}"
        self._ids[exchange] = number
        self._exchanges.append(
            {
                "id": number,
                "name": name,
                "vhost": vhost,
                "type": exchange.kind,
                "rate": self._rate(exchange),
                "gates": [gate_id(gate) for gate in _closed(exchange)],
            }
        )
        return number

    def _find(self, vhost: str, name: str) -> Exchange | None:
        found: VirtualHost | None = self._node.broker.vhosts.get(vhost)
        return None if found is None else found.exchanges.get(name)

    def _rate(self, exchange: Exchange) -> float | None:
        """Return the messages published per second since the previous map; None if it was not in that map."""
        now = int(exchange.counters.published)
        self.published.messages[exchange] = now
        before = self._before.messages.get(exchange)
        if before is None or self._seconds <= 0:
            return None
        return round(max(now - before, 0) / self._seconds, 1)


def _closed(exchange: Exchange) -> list[Gate]:
    """Return the gates of an exchange that are closed or block somebody, without its rate."""
    return [gate for gate in exchange.gates if not gate.frequent and (not gate.open or gate.blocked)]


def _keys(bindings: list[Binding], exchange: str) -> list[str]:
    """Return the keys of bindings from an exchange, each once."""
    return [_cut(key) for key in dict.fromkeys(each.key for each in bindings if each.source.name == exchange) if key]


def _cut(key: str) -> str:
    return key if len(key) <= KEY_LETTERS else f"{key[: KEY_LETTERS - 1]}…"
