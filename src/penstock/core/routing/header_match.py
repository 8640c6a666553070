"""What a binding of a headers exchange asks of a message's headers (AMQP 0-9-1 section 3.1.3.4; RabbitMQ 3.10)."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from mypy_extensions import i64

from penstock.core.routing.field_values import alike, text_of, type_name
from penstock.errors import PreconditionFailed

ALL: Final = "all"
ANY: Final = "any"
ALL_WITH_X: Final = "all-with-x"
ANY_WITH_X: Final = "any-with-x"
X_MATCH: Final = "x-match"
"""Says which: all arguments (the default) or any; those with x look at arguments whose names begin with x- as well."""


HEADER_MATCH_VISITS: Final = 4
"""What looking at a header for a demand counts as, in visits of bindings."""


class HeaderMatch:
    """Headers that must be there: all of them, or any."""

    __slots__ = ("any", "wanted")

    def __init__(self, arguments: dict[str, object]) -> None:
        mode = arguments.get(X_MATCH, ALL)
        self.any: bool = mode == ANY or mode == ANY_WITH_X
        with_x = mode == ALL_WITH_X or mode == ANY_WITH_X
        self.wanted: list[tuple[str, object]] = [
            (name, alike(value))
            for name, value in arguments.items()
            if name != X_MATCH and (with_x or not name.startswith("x-"))
        ]

    def matches(self, headers: dict[str, object]) -> bool:
        """Return whether a message with these headers is meant.

        An argument without a value (void) asks for the header, whatever it says. Where nothing is asked for, "all" is
        met by every message and "any" by none.
        """
        for name, value in self.wanted:
            hit = name in headers and (value is None or alike(headers[name]) == value)
            if hit == self.any:
                return hit
        return not self.any

    def index_keys(self) -> list[tuple[str, object]]:
        """Return the headers of which one must be there for it to be met: name, and value or None for any value.

        Empty where nothing is asked for.
        """
        if self.any:
            return list(dict.fromkeys(self.wanted))
        for each in self.wanted:
            if each[1] is not None:
                return [each]
        return self.wanted[:1]


Item = TypeVar("Item")


class HeaderMatchIndex(Generic[Item]):
    """Things by what they ask of a message's headers.

    A demand for all stands under one of its headers, one for any under each of them. So a message finds those that are
    about its headers, however many others there are.
    """

    def __init__(self) -> None:
        self._matches: dict[Item, HeaderMatch] = {}
        self._under: dict[tuple[str, object], dict[Item, HeaderMatch]] = {}
        self._always: dict[Item, HeaderMatch] = {}
        """Those that ask for nothing: what asks for all of it is met by every message."""

    def add(self, thing: Item, demand: HeaderMatch) -> None:
        """Add a thing; it must not be there."""
        self._matches[thing] = demand
        for key in demand.index_keys():
            under = self._under.get(key)
            if under is None:
                self._under[key] = {thing: demand}
            else:
                under[thing] = demand
        if not demand.wanted and not demand.any:
            self._always[thing] = demand

    def discard(self, thing: Item) -> None:
        """Remove a thing."""
        demand = self._matches.pop(thing)
        for key in demand.index_keys():
            under = self._under[key]
            del under[thing]
            if not under:
                del self._under[key]
        self._always.pop(thing, None)

    def match(self, headers: dict[str, object], found: list[Item], most: i64) -> i64:
        """Add to `found` the things whose demand is met, each once, in no particular order.

        Returns how many headers and demands were looked at; when that is more than `most` it was given up.
        """
        visited: i64 = 1 + len(headers) + len(self._always)
        if visited > most:
            return visited
        found.extend(self._always)
        met: dict[Item, None] = {}
        for name, value in headers.items():
            keys: list[tuple[str, object]] = [(name, None)]
            if value is not None:
                keys.append((name, alike(value)))
            for key in keys:
                under = self._under.get(key)
                if under is None:
                    continue
                for thing, demand in under.items():
                    visited += HEADER_MATCH_VISITS if demand.any else HEADER_MATCH_VISITS * len(demand.wanted)
                    if visited > most:
                        return visited
                    if demand.any or demand.matches(headers):
                        met[thing] = None
        found.extend(met)
        return visited


def check_header_match(arguments: dict[str, object]) -> None:
    """Raise PreconditionFailed (406) for an x-match that cannot be meant."""
    if X_MATCH not in arguments:
        return
    mode = arguments[X_MATCH]
    if not isinstance(mode, str):
        raise PreconditionFailed(
            f"Invalid x-match field type {type_name(mode)} (value {text_of(mode)}); expected longstr"
        )
    if mode not in (ALL, ANY, ALL_WITH_X, ANY_WITH_X):
        raise PreconditionFailed(f"Invalid x-match field value '{mode}'; expected all, any, all-with-x, or any-with-x")
