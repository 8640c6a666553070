"""Permissions of a user in a virtual host: an expression for each kind, as in RabbitMQ's access control guide."""

from __future__ import annotations

from typing import Final

from penstock.access.expressions import check_expression

CONFIGURE: Final = "configure"
"""Declare and delete."""
WRITE: Final = "write"
"""Publish, and be the target of a binding."""
READ: Final = "read"
"""Consume, get, purge, and be the source of a binding."""
KINDS: Final = (CONFIGURE, WRITE, READ)
VARIABLES: Final = ("{username}", "{vhost}", "{client_id}")
"""Variables in expressions of topic permissions; their values match as they are written."""


class Permission:
    """Expressions for the names of queues and exchanges that may be configured, written and read; "" is none."""

    def __init__(self, configure: str, write: str, read: str) -> None:
        self.configure = configure
        self.write = write
        self.read = read

    def expression(self, kind: str) -> str:
        """Return the expression of a kind."""
        if kind == WRITE:
            return self.write
        return self.read if kind == READ else self.configure

    def octets(self) -> int:
        """Return the memory that its texts take, in octets."""
        return len(self.configure) + len(self.write) + len(self.read)

    def check(self, user: str, vhost: str) -> None:
        """Check all expressions. Raises PreconditionFailed naming user, virtual host, kind and expression."""
        for kind in KINDS:
            check_expression(self.expression(kind), f"{kind} permission of user '{user}' in vhost '{vhost}'")

    def __eq__(self, other: object) -> bool:
        """Compare the texts."""
        if not isinstance(other, Permission):
            return False
        return self.configure == other.configure and self.write == other.write and self.read == other.read

    def __hash__(self) -> int:
        """Return a number by the texts."""
        return hash((self.configure, self.write, self.read))


class TopicPermission:
    """Expressions for the routing keys that may be published to a topic exchange, and bound or read from it."""

    def __init__(self, write: str, read: str) -> None:
        self.write = write
        self.read = read

    def expression(self, kind: str) -> str:
        """Return the expression of a kind; topics have no configure permission (in RabbitMQ neither)."""
        return self.write if kind == WRITE else self.read

    def octets(self) -> int:
        """Return the memory that its texts take, in octets."""
        return len(self.write) + len(self.read)

    def check(self, user: str, vhost: str, exchange: str) -> None:
        """Check both expressions. Raises PreconditionFailed naming user, virtual host, exchange and expression."""
        for kind in (WRITE, READ):
            expression = self.expression(kind)
            for variable in VARIABLES:
                expression = expression.replace(variable, "x")
            check_expression(
                expression,
                f"topic {kind} permission of user '{user}' for exchange '{exchange}' in vhost '{vhost}'",
            )

    def __eq__(self, other: object) -> bool:
        """Compare the texts."""
        return isinstance(other, TopicPermission) and self.write == other.write and self.read == other.read

    def __hash__(self) -> int:
        """Return a number by the texts."""
        return hash((self.write, self.read))
