"""Rules of a login by token: the scopes of OAuth 2, in RabbitMQ's form (its guide "OAuth 2.0 authentication backend").

| scope, after its prefix | grants |
|---|---|
| `configure:VHOST/NAME`, `write:...`, `read:...` | access to queues and exchanges whose names match |
| `read:VHOST/EXCHANGE/ROUTING_KEY`, `write:...` | the same, and access to routing keys of topic exchanges |
| `tag:administrator` | a tag |

`*` in a pattern is any number of characters; `%2F` and `%2A` are a slash and an asterisk. Other scopes grant nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote_plus

from typing_extensions import override

from penstock.access.epoch import Epoch
from penstock.access.permission import KINDS
from penstock.access.rules import Rules

SCOPES_MOST: Final = 1_000
"""Most scopes of a token; it is refused beyond."""
PATTERN_OCTETS: Final = 1_024
"""Longest scope, in characters; a longer one grants nothing."""
TAG: Final = "tag:"


class Pattern:
    """Pattern with asterisks, matched in linear time: its parts are looked for from left to right."""

    def __init__(self, text: str) -> None:
        parts = [_decoded(part) for part in text.split("*")]
        self._parts: list[str] = [part for part in parts if part is not None]
        self._valid: bool = len(self._parts) == len(parts)

    def matches(self, name: str) -> bool:
        """Tell whether a name matches, as a whole."""
        parts = self._parts
        if not self._valid or not name.startswith(parts[0]):
            return False
        if len(parts) == 1:
            return name == parts[0]
        pos = len(parts[0])
        for part in parts[1:-1]:
            pos = name.find(part, pos)
            if pos < 0:
                return False
            pos += len(part)
        return len(name) - pos >= len(parts[-1]) and name.endswith(parts[-1])


class Scope:
    """Scope that grants access."""

    def __init__(self, kind: str, vhost: str, name: str, routing_key: str | None) -> None:
        self.kind = kind
        self.vhost = Pattern(vhost)
        self.name = Pattern(name)
        self.routing_key = None if routing_key is None else Pattern(routing_key)
        """Pattern of routing keys; None: it grants none."""


class TokenRules(Rules):
    """Rules of the token that a client logged in with, or that it has sent since (`replace`)."""

    def __init__(self, scopes: Sequence[str]) -> None:
        super().__init__(Epoch())
        self._scopes: list[Scope] = []
        self._tags: list[str] = []
        self._read(scopes)

    def replace(self, other: TokenRules) -> None:
        """Take the scopes of a newer token of the same user."""
        self._scopes = other._scopes
        self._tags = other._tags
        self.epoch.count += 1

    def _read(self, scopes: Sequence[str]) -> None:
        for text in scopes[:SCOPES_MOST]:
            if len(text) > PATTERN_OCTETS:
                continue
            if text.startswith(TAG):
                tag = text[len(TAG) :]
                if tag and tag not in self._tags:
                    self._tags.append(tag)
                continue
            kind, _, patterns = text.partition(":")
            parts = patterns.split("/")
            if kind in KINDS and 2 <= len(parts) <= 3:
                self._scopes.append(Scope(kind, parts[0], parts[1], parts[2] if len(parts) == 3 else None))

    @override
    def enters(self, vhost: str) -> bool:
        """See `Rules.enters`: any scope for the virtual host will do (as in RabbitMQ)."""
        for scope in self._scopes:
            if scope.vhost.matches(vhost):
                return True
        return False

    @override
    def permits(self, kind: str, vhost: str, name: str) -> bool:
        for scope in self._scopes:
            if scope.kind == kind and scope.vhost.matches(vhost) and scope.name.matches(name):
                return True
        return False

    @override
    def permits_topic(self, kind: str, vhost: str, exchange: str, routing_key: str) -> bool:
        """See `Rules.permits_topic`: only scopes with a routing key grant it (as in RabbitMQ)."""
        for scope in self._scopes:
            keys = scope.routing_key
            if (
                keys is not None
                and scope.kind == kind
                and scope.vhost.matches(vhost)
                and scope.name.matches(exchange)
                and keys.matches(routing_key)
            ):
                return True
        return False

    @override
    def tags(self) -> list[str]:
        return self._tags


def scopes_of(claim: object, prefix: str) -> list[str]:
    """Return the scopes of a claim that begin with the prefix, without it: texts of a list, or words of a text."""
    if isinstance(claim, str):
        words: list[object] = list(claim.split())
    elif isinstance(claim, list):
        words = claim
    else:
        return []
    return [word[len(prefix) :] for word in words if isinstance(word, str) and word.startswith(prefix)]


def _decoded(text: str) -> str | None:
    """Return a part of a pattern without its percent signs; None if it is not UTF-8."""
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        return None
