"""Requests by method and path: the interface between a protocol that reads them and the operations that answer them.

The management node of AMQP 1.0 has such requests. Values in bodies are neutral, and answers say how numbers and lists
are meant where a protocol has several types for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from penstock.errors import InvalidField

if TYPE_CHECKING:
    from penstock.connections.connection import Connection
    from penstock.core.vhost import VirtualHost

COUNT: Final = "a number of 64 bits"
SMALL_COUNT: Final = "a number of 32 bits"
NAMES: Final = "an array of texts"
TABLE: Final = "a table, as it was declared"
COMPARED_TABLE: Final = "a table that clients compare with theirs, types included"
"""Kinds of fields in an answer; a field without a kind is a text or a flag."""
NO_KINDS: Final[Mapping[str, str]] = {}


class PathRequest:
    """A request. Its path and query are percent-decoded when they are asked for."""

    def __init__(self, method: str, target: str, body: object) -> None:
        path, _, query = target.partition("?")
        self.method: Final = method
        self.path: Final = path
        self._query: Final = query
        self.body: Final = body
        """A map by name, or another value; None without a body."""

    def segments(self) -> list[str]:
        """Return the segments of the path. Raises InvalidField."""
        return [decoded(part) for part in self.path.split("/")[1:]]

    def last_fields(self) -> dict[str, str]:
        """Return the fields in the last segment: `a=1;b=2`. Raises InvalidField.

        A field may contain a semicolon, percent-encoded.
        """
        return pairs(self.path.rpartition("/")[2], ";")

    def queries(self) -> list[dict[str, str]]:
        """Return the fields of the query; with `+` for a space (RabbitMQ's .NET client), then for itself (Java's).

        Raises InvalidField.
        """
        own = pairs(self._query, "&")
        return [pairs(self._query.replace("+", "%20"), "&"), own] if "+" in self._query else [own]


def decoded(text: str) -> str:
    """Return percent-decoded text. Raises InvalidField unless it is UTF-8."""
    if "%" not in text:
        return text
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise InvalidField(f"'{text[:60]}', percent-decoded, is not UTF-8") from None


def pairs(text: str, divider: str) -> dict[str, str]:
    """Return the fields of a query, or of a segment that is one: `a=1&b=2`, percent-decoded. Raises InvalidField."""
    pairs: dict[str, str] = {}
    for part in text.split(divider) if text else []:
        name, equals, value = part.partition("=")
        if not equals:
            raise InvalidField(f"'{part[:60]}' is no name and value with '=' between them")
        pairs[name] = decoded(value)
    return pairs


class PathAnswer:
    """Answer to a request: a status of HTTP, and a text, a row, rows or nothing."""

    __slots__ = ("status", "body", "kinds", "changed")

    def __init__(self, status: int, body: object = None, kinds: Mapping[str, str] = NO_KINDS) -> None:
        self.status = status
        self.body = body
        self.kinds = kinds
        """Kinds of the fields of its rows."""
        self.changed: bool = False
        """True if the audit log records the request."""


class ServedPaths:
    """Paths that a broker serves."""

    def names(self) -> list[str]:
        """Return the first path of each noun, for sentences."""
        raise NotImplementedError

    def methods_of(self, segments: list[str]) -> list[str]:
        """Return the methods at a path; none if the path does not exist."""
        raise NotImplementedError

    def carry_out(self, connection: Connection, vhost: VirtualHost, request: PathRequest) -> PathAnswer:
        """Carry out a request with a method that its path has. Raises BrokerError."""
        raise NotImplementedError
