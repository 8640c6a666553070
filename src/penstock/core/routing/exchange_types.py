"""The exchange types, by the names that declarations use."""

from __future__ import annotations

from typing import Final

from penstock.core.routing.exchange import Direct, Exchange, Fanout, Headers, Topic
from penstock.core.routing.spread import ConsistentHash, ModulusHash, Random
from penstock.errors import PreconditionFailed
from penstock.texts import nearest

EXCHANGE_TYPES: Final[dict[str, type[Exchange]]] = {
    "direct": Direct,
    "fanout": Fanout,
    "topic": Topic,
    "headers": Headers,
    "x-consistent-hash": ConsistentHash,
    "x-modulus-hash": ModulusHash,
    "x-random": Random,
}
"""Classes by the names of their types. A new type is a class and its row."""
DESCRIPTIONS: Final[dict[str, str]] = {
    "x-consistent-hash": "Consistent hash of the routing key, a header or a property; binding keys are weights",
    "x-modulus-hash": "Hash of the routing key, modulo the number of destinations",
    "x-random": "One of the destinations by chance",
}
"""Descriptions of the types that the AMQP specification does not describe."""


def make_exchange(kind: str, vhost: str, name: str) -> Exchange:
    """Create an exchange of a type by its name.

    Raises PreconditionFailed (406) for an unknown type, as RabbitMQ 4 does; earlier versions closed the connection
    (503).
    """
    if kind in EXCHANGE_TYPES:
        exchange = EXCHANGE_TYPES[kind](vhost, name)
        exchange.kind = kind
        return exchange
    near = nearest(kind, EXCHANGE_TYPES)
    *most, last = EXCHANGE_TYPES
    hint = f"did you mean '{near}'?" if near else f"known are {', '.join(most)} and {last}"
    raise PreconditionFailed(f"unknown exchange type '{kind}'; {hint}")
