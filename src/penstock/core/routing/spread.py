"""Exchanges that lead each message to one of their destinations: by a hash, or by chance (RabbitMQ's plugins).

Theory of operation. A destination is a queue or an exchange, however many bindings lead there. The consistent hash is
rendezvous hashing with weights: each destination has a score for a hash, and the highest score decides. So a new
destination takes its own share of the hashes, and no other hash changes its destination. Scores depend on names alone:
neither a restart nor the order of bindings changes a destination.

There is no chance in the core. A random exchange mixes the number of the message with a seed from its own name.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_left
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.content.selector.fields import Field
from penstock.core.routing.exchange import ALTERNATE, Binding, Exchange
from penstock.core.routing.header_match import comparable, type_name
from penstock.errors import PreconditionFailed
from penstock.texts import worded

HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
HASH_ON: Final = "x-hash-on"
"""Arguments of an exchange by consistent hash: the header, or the property, that is hashed in place of the key. LavinMQ
calls the header x-hash-on.
"""
PROPERTIES: Final[dict[str, str]] = {
    "message_id": "amqp.message_id",
    "correlation_id": "amqp.correlation_id",
    "timestamp": "amqp.creation_time",
}
"""Values of `hash-property`, with the fields of messages as selectors name them."""
WEIGHT_MAX: Final = 1_000_000_000
"""Largest weight of a binding."""
SCORES_A_VISIT: Final = 4
"""Destinations whose scores cost as much as the visit of a binding."""

_BITS32: Final = 0xFFFFFFFF
_SHARES: Final = 4294967296.0
"""Number of different shares."""


def mixed(number: i64) -> i64:
    """Return 32 bits that depend on all 32 bits of a number: a bijection without visible order."""
    number ^= number >> 16
    number = (number * 0x21F0AAAD) & _BITS32
    number ^= number >> 15
    number = (number * 0x735A2D97) & _BITS32
    return number ^ (number >> 15)


def text_hash(text: str) -> i64:
    """Return 32 bits of a text, the same in every process."""
    return zlib.crc32(text.encode(errors="surrogatepass"))


def text_of(value: object) -> str:
    """Return the text by which a header or property is hashed; "" for a missing one.

    A number differs from the same number as a text, as in RabbitMQ.
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else repr(comparable(value))


class Destination:
    """A queue or exchange with all bindings that lead there from one exchange."""

    __slots__ = ("end", "bindings", "weight", "low", "high")

    def __init__(self, end: tuple[str, str]) -> None:
        self.end = end
        """Kind and name."""
        self.bindings: dict[Binding, None] = {}
        self.weight: i64 = 0
        """Sum of the weights of the bindings."""
        text = "/".join(end)
        self.low: i64 = text_hash(text)
        self.high: i64 = text_hash(f"{text}/")
        """Two hashes of the name: two destinations with the same score for every hash are no accident."""

    def share(self, hashed: i64) -> i64:
        """Return the 32 bits of the destination for a hash."""
        return mixed(mixed(hashed ^ self.low) ^ self.high)


class Destinations:
    """The destinations of one exchange, in the order of their kinds and names."""

    __slots__ = ("all", "_ends", "_weights")

    def __init__(self) -> None:
        self.all: list[Destination] = []
        self._ends: list[tuple[str, str]] = []
        """Kinds and names of the destinations, for binary searches."""
        self._weights: dict[int, int] = {}
        """Number of destinations of each weight."""

    def add(self, binding: Binding, weight: i64 = 1) -> None:
        """Add a binding, with its weight."""
        end = (binding.binding_key[0], binding.binding_key[1])
        at = bisect_left(self._ends, end)
        if at == len(self._ends) or self._ends[at] != end:
            self._ends.insert(at, end)
            self.all.insert(at, Destination(end))
        destination = self.all[at]
        destination.bindings[binding] = None
        self._change(destination, weight)

    def remove(self, binding: Binding, weight: i64 = 1) -> None:
        """Undo `add`."""
        at = bisect_left(self._ends, (binding.binding_key[0], binding.binding_key[1]))
        destination = self.all[at]
        del destination.bindings[binding]
        self._change(destination, -weight)
        if not destination.bindings:
            del self.all[at]
            del self._ends[at]

    def _change(self, destination: Destination, more: i64) -> None:
        before, now = int(destination.weight), int(destination.weight + more)
        destination.weight += more
        if before in self._weights:
            self._weights[before] -= 1
            if self._weights[before] == 0:
                del self._weights[before]
        if now > 0:
            self._weights[now] = self._weights.get(now, 0) + 1

    def weights_differ(self) -> bool:
        """Return whether two destinations have different weights."""
        return len(self._weights) > 1

    def match(self, index: i64, matched: list[Binding]) -> None:
        """Append one binding to the destination at an index."""
        for binding in self.all[index].bindings:
            matched.append(binding)
            break

    def match_modulo(self, number: i64, matched: list[Binding], most: i64) -> i64:
        """Append one binding to the destination of a number, modulo their count; return the visits, as `match` of
        exchanges.
        """
        count: i64 = len(self.all)
        if count > 0 and most > 0:
            self.match(number % count, matched)
        return 1


class ConsistentHash(Exchange):
    """Consistent hash of the routing key, of a header or of a property. The binding key is the weight, a number."""

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self._destinations = Destinations()
        self._by_weight: bool = False
        """True if weights differ."""
        self._header: str | None = None
        """The header that is hashed; None for another part of the message."""

    @override
    def set_arguments(self, arguments: dict[str, object]) -> None:
        given = [name for name in (HASH_HEADER, HASH_ON, HASH_PROPERTY) if name in arguments]
        for name in given:
            if not isinstance(arguments[name], str):
                raise PreconditionFailed(
                    f"exchange '{self.name}': {name} is of type {type_name(arguments[name])}; it must be a string"
                )
        if len(given) > 1:
            raise PreconditionFailed(
                f"exchange '{self.name}': {given[0]} and {given[1]} exclude each other; a message has one hash"
            )
        hashed = arguments.get(HASH_PROPERTY)
        if isinstance(hashed, str):
            if hashed not in PROPERTIES:
                raise PreconditionFailed(
                    f"exchange '{self.name}': {HASH_PROPERTY} is {worded(hashed)}; it is one of {', '.join(PROPERTIES)}"
                )
            self.hashed_field = Field(PROPERTIES[hashed])
        header = arguments.get(HASH_HEADER, arguments.get(HASH_ON))
        self._header = header if isinstance(header, str) else None
        self.by_headers = bool(given)
        super().set_arguments(arguments)

    @override
    def compared(self) -> tuple[str, ...]:
        return (ALTERNATE, HASH_HEADER, HASH_ON, HASH_PROPERTY)

    @override
    def check_binding(self, key: str, arguments: dict[str, object]) -> None:
        if not (key.isascii() and key.isdecimal() and len(key) <= 20 and 1 <= int(key) <= WEIGHT_MAX):
            raise PreconditionFailed(
                f"invalid binding key {worded(key)} for exchange '{self.name}' of type {self.kind}: it is the weight, "
                f"a whole number from 1 to {WEIGHT_MAX:,}"
            )

    def _index(self, binding: Binding) -> None:
        self._destinations.add(binding, int(binding.key))
        self._by_weight = self._destinations.weights_differ()

    def _unindex(self, binding: Binding) -> None:
        self._destinations.remove(binding, int(binding.key))
        self._by_weight = self._destinations.weights_differ()

    @override
    def match(self, key: str, headers: dict[str, object], matched: list[Binding], most: i64) -> i64:
        visits = len(self._destinations.all) // SCORES_A_VISIT + 1
        if self._destinations.all and visits <= most:
            hashed = text_hash(key if self._header is None else text_of(headers.get(self._header)))
            self._destinations.match(self._best_by_weight(hashed) if self._by_weight else self._best(hashed), matched)
        return visits

    def _best(self, hashed: i64) -> i64:
        """Return the index of the destination with the highest score, where all weights are the same."""
        destinations = self._destinations.all
        best: i64 = 0
        highest: i64 = -1
        for index in range(len(destinations)):
            share = destinations[index].share(hashed)
            if share > highest:
                highest = share
                best = index
        return best

    def _best_by_weight(self, hashed: i64) -> i64:
        destinations = self._destinations.all
        best: i64 = 0
        highest = -math.inf
        for index in range(len(destinations)):
            destination = destinations[index]
            score = math.log((float(destination.share(hashed)) + 0.5) / _SHARES) / float(destination.weight)
            if score > highest:
                highest = score
                best = index
        return best


class ModulusHash(Exchange):
    """Hash of the routing key, modulo the number of destinations: a new destination changes most of the others."""

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self._destinations = Destinations()

    def _index(self, binding: Binding) -> None:
        self._destinations.add(binding)

    def _unindex(self, binding: Binding) -> None:
        self._destinations.remove(binding)

    @override
    def match(self, key: str, headers: dict[str, object], matched: list[Binding], most: i64) -> i64:
        return self._destinations.match_modulo(mixed(text_hash(key)), matched, most)


class Random(Exchange):
    """Any destination, with equal chances; neither the routing key nor the headers matter."""

    by_chance = True

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self.by_headers = True  # No route may be cached.
        self._destinations = Destinations()
        self._seed: i64 = text_hash(name)
        self._chosen: i64 = 0
        """Number of choices."""

    def _index(self, binding: Binding) -> None:
        self._destinations.add(binding)

    def _unindex(self, binding: Binding) -> None:
        self._destinations.remove(binding)

    @override
    def match(self, key: str, headers: dict[str, object], matched: list[Binding], most: i64) -> i64:
        self._chosen = (self._chosen + 1) & _BITS32
        return self._destinations.match_modulo(mixed(mixed(self._chosen) ^ self._seed), matched, most)
