"""The exchange types, by the names that declarations use, and the type that delays messages for any of the others."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.routing.exchange import Binding, Direct, Exchange, Fanout, Headers, Topic
from penstock.core.routing.federation_upstream import FederationUpstream
from penstock.core.routing.spread import ConsistentHash, ModulusHash, Random
from penstock.errors import PreconditionFailed
from penstock.settings.without_effect import DELAYED, DELAYED_TYPE, FEDERATION, HASHING
from penstock.texts import nearest, worded


class Delaying(Exchange):
    """Exchange of type x-delayed-message: its messages are due after the milliseconds in their header `x-delay`.

    Another type, in its argument `x-delayed-type`, finds the bindings.
    """

    by_headers = True
    delays = True

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self._finder: Exchange = Direct(vhost, name)

    @override
    def set_arguments(self, arguments: dict[str, object]) -> None:
        kind = arguments.get(DELAYED_TYPE)
        kinds = [known for known in _types_of_clients() if known != DELAYED]
        if not isinstance(kind, str) or kind not in kinds:
            given = f"is {worded(kind)}" if DELAYED_TYPE in arguments else "is missing"
            raise PreconditionFailed(
                f"exchange '{self.name}' in vhost '{self.vhost}': argument {DELAYED_TYPE} {given}; an exchange of type "
                f"{DELAYED} needs the type that finds its bindings: {', '.join(kinds[:-1])} or {kinds[-1]}"
            )
        finder = make_exchange(kind, self.vhost, self.name)
        finder.set_arguments(arguments)
        finder.bindings = self.bindings
        self._finder = finder
        self.hashed_field = finder.hashed_field
        super().set_arguments(arguments)

    @override
    def compared(self) -> tuple[str, ...]:
        return (DELAYED_TYPE, *self._finder.compared())

    @override
    def routing_kind(self) -> str:
        return self._finder.routing_kind()

    @override
    def check_binding(self, key: str, arguments: dict[str, object]) -> None:
        self._finder.check_binding(key, arguments)

    @override
    def match(self, key: str, headers: dict[str, object], matched: list[Binding], most: i64) -> i64:
        return self._finder.match(key, headers, matched, most)

    @override
    def _index(self, binding: Binding) -> None:
        self._finder._index(binding)

    @override
    def _unindex(self, binding: Binding) -> None:
        self._finder._unindex(binding)


EXCHANGE_TYPES: Final[dict[str, type[Exchange]]] = {
    "direct": Direct,
    "fanout": Fanout,
    "topic": Topic,
    "headers": Headers,
    HASHING: ConsistentHash,
    "x-modulus-hash": ModulusHash,
    "x-random": Random,
    DELAYED: Delaying,
    FEDERATION: FederationUpstream,
}
"""Classes by the names of their types. A new type is a class and its row."""
DESCRIPTIONS: Final[dict[str, str]] = {
    HASHING: "Consistent hash of the routing key, a header or a property; binding keys are weights",
    "x-modulus-hash": "Hash of the routing key, modulo the number of destinations",
    "x-random": "One of the destinations by chance",
    DELAYED: "Delay of messages by their header x-delay; another type finds the bindings",
    FEDERATION: "Federation upstream helper exchange",
}
"""Descriptions of the types that the AMQP specification does not describe."""


def _types_of_clients() -> list[str]:
    """Return the types that clients declare, for sentences."""
    return [kind for kind in EXCHANGE_TYPES if kind != FEDERATION]


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
    *most, last = _types_of_clients()
    hint = f"did you mean '{near}'?" if near else f"known are {', '.join(most)} and {last}"
    raise PreconditionFailed(f"unknown exchange type '{kind}'; {hint}")
