"""Header matching for headers exchanges, with an index (AMQP 0-9-1 section 3.1.3.4; RabbitMQ 3.10)."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final, Generic, TypeVar

from mypy_extensions import i64

from penstock.errors import PreconditionFailed
from penstock.texts import worded

_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1


def alike(value: object) -> object:
    """Return a hashable form that is equal for values of the same class and content."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return ("int", int(value.timestamp())) if isinstance(value, datetime) else comparable(value)


def comparable(value: object) -> object:
    """Return a hashable form that is equal for values of the same type and content: bytes are not text."""
    if value is None or isinstance(value, (str, bytes)):
        return value
    if isinstance(value, list):
        return ("array", tuple([comparable(each) for each in value]))
    if isinstance(value, dict):
        return ("table", tuple([(name, comparable(value[name])) for name in sorted(value)]))
    if isinstance(value, float) and value != value:
        return ("double", "nan")
    name = type_name(value)
    return ("int" if name == "long" or name == "signedint" else name, value)


def type_name(value: object) -> str:
    """Return RabbitMQ's name for the type of a value; a whole number gets the smallest width that fits."""
    if value is None:
        return "void"
    if isinstance(value, str):
        return "longstr"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if _INT32_MIN <= value <= _INT32_MAX else "long"
    if isinstance(value, float):
        return "double"
    if isinstance(value, datetime):
        return "timestamp"
    if isinstance(value, Decimal):
        return "decimal"
    return "array" if isinstance(value, list) else "table"


ALL: Final = "all"
ANY: Final = "any"
ALL_WITH_X: Final = "all-with-x"
ANY_WITH_X: Final = "any-with-x"
X_MATCH: Final = "x-match"
"""The match mode: all arguments (the default) or any; the modes with x also compare names that begin with x-."""


HEADER_MATCH_VISITS: Final = 4
"""Cost of comparing one header with a binding, in visits of bindings."""


class HeaderMatch:
    """The headers that a binding requires: all of them, or any."""

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
        """Return whether a message with these headers matches.

        An argument without a value (void) requires only the header's presence. Without requirements "all" matches every
        message and "any" no message.
        """
        for name, value in self.wanted:
            hit = name in headers and (value is None or alike(headers[name]) == value)
            if hit == self.any:
                return hit
        return not self.any

    def index_keys(self) -> list[tuple[str, object]]:
        """Return headers of which every matching message has at least one: name, and value or None for any value.

        Empty without requirements.
        """
        if self.any:
            return list(dict.fromkeys(self.wanted))
        for each in self.wanted:
            if each[1] is not None:
                return [each]
        return self.wanted[:1]


Item = TypeVar("Item")


class HeaderMatchIndex(Generic[Item]):
    """Index of items by their required headers.

    An item with mode all is listed under one of its headers, an item with mode any under each of its headers. So a
    message finds the items for its headers, however many others exist.
    """

    def __init__(self) -> None:
        self._matches: dict[Item, HeaderMatch] = {}
        self._under: dict[tuple[str, object], dict[Item, HeaderMatch]] = {}
        self._always: dict[Item, HeaderMatch] = {}
        """Items without requirements."""

    def add(self, item: Item, demand: HeaderMatch) -> None:
        """Add an item; it must not be present."""
        self._matches[item] = demand
        for key in demand.index_keys():
            under = self._under.get(key)
            if under is None:
                self._under[key] = {item: demand}
            else:
                under[item] = demand
        if not demand.wanted and not demand.any:
            self._always[item] = demand

    def discard(self, item: Item) -> None:
        """Remove an item."""
        demand = self._matches.pop(item)
        for key in demand.index_keys():
            under = self._under[key]
            del under[item]
            if not under:
                del self._under[key]
        self._always.pop(item, None)

    def match(self, headers: dict[str, object], items: list[Item], most: i64) -> i64:
        """Append the matching items to `items`, each once, in no particular order.

        Returns the number of headers and items visited; above `most` the search has stopped.
        """
        visited: i64 = 1 + len(headers) + len(self._always)
        if visited > most:
            return visited
        items.extend(self._always)
        met: dict[Item, None] = {}
        for name, value in headers.items():
            keys: list[tuple[str, object]] = [(name, None)]
            if value is not None:
                keys.append((name, alike(value)))
            for key in keys:
                under = self._under.get(key)
                if under is None:
                    continue
                for item, demand in under.items():
                    visited += HEADER_MATCH_VISITS if demand.any else HEADER_MATCH_VISITS * len(demand.wanted)
                    if visited > most:
                        return visited
                    if demand.any or demand.matches(headers):
                        met[item] = None
        items.extend(met)
        return visited


def check_header_match(arguments: dict[str, object]) -> None:
    """Raise PreconditionFailed (406) for an invalid x-match."""
    if X_MATCH not in arguments:
        return
    mode = arguments[X_MATCH]
    if not isinstance(mode, str):
        raise PreconditionFailed(
            f"Invalid x-match field type {type_name(mode)} (value {worded(mode, False)}); expected longstr"
        )
    if mode not in (ALL, ANY, ALL_WITH_X, ANY_WITH_X):
        raise PreconditionFailed(f"Invalid x-match field value '{mode}'; expected all, any, all-with-x, or any-with-x")
