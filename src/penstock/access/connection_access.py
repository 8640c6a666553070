"""Access of a connection to its virtual host: rules with a cache, and refusals in RabbitMQ's words."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.access.rules import Rules
from penstock.errors import AccessRefused

CACHED_MOST: Final = 32
"""Permitted answers that a connection keeps; beyond, the oldest is forgotten. (RabbitMQ keeps 12 a channel.)"""
DEFAULT_EXCHANGE: Final = "amq.default"
"""Name of the default exchange in permissions (as in RabbitMQ)."""
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"


class ConnectionAccess:
    """Checks of one connection. Only what is permitted is kept, until the rules change."""

    def __init__(self, rules: Rules, user: str, vhost: str) -> None:
        self.rules = rules
        self.user = user
        self.vhost = vhost
        self._permitted: dict[tuple[str, str, str], None] = {}
        self._topics: dict[tuple[str, str, str], None] = {}
        self.epoch: Final = rules.epoch
        """Changes of the rules: a route that was checked at another count must be checked again."""
        self._checked: i64 = rules.epoch.count

    def check(self, kind: str, what: str, name: str) -> None:
        """Check access to a queue or exchange (`what` is QUEUE or EXCHANGE).

        Raises AccessRefused (403), in RabbitMQ's words.
        """
        self._renew()
        if not name and what == EXCHANGE:
            name = DEFAULT_EXCHANGE
        asked = (kind, what, name)
        if asked in self._permitted:
            return
        if not self.rules.permits(kind, self.vhost, name):
            raise AccessRefused(
                f"{kind} access to {what} '{name}' in vhost '{self.vhost}' refused for user '{self.user}'"
            )
        _keep(self._permitted, asked)

    def may(self, kind: str, name: str) -> bool:
        """Tell whether a queue or exchange may be accessed, for lists of what a client may see."""
        return self.rules.permits(kind, self.vhost, name)

    def check_topic(self, kind: str, exchange: str, routing_key: str) -> None:
        """Check access to a routing key of a topic exchange. Raises AccessRefused (403), in RabbitMQ's words."""
        self._renew()
        asked = (kind, exchange, routing_key)
        if asked in self._topics:
            return
        if not self.rules.permits_topic(kind, self.vhost, exchange, routing_key):
            raise AccessRefused(
                f"{kind} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{self.vhost}' "
                f"refused for user '{self.user}'"
            )
        _keep(self._topics, asked)

    def _renew(self) -> None:
        """Forget all answers when the rules have changed."""
        if self.epoch.count != self._checked:
            self._checked = self.epoch.count
            self._permitted.clear()
            self._topics.clear()


def _keep(kept: dict[tuple[str, str, str], None], asked: tuple[str, str, str]) -> None:
    if len(kept) >= CACHED_MOST:
        del kept[next(iter(kept))]
    kept[asked] = None
