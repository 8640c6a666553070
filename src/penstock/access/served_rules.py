"""Rules of a user whom an HTTP back end has let in: the virtual hosts that it permits, with one permission in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from typing_extensions import override

from penstock.access.epoch import Epoch
from penstock.access.expressions import Expressions, check_expression, escape
from penstock.access.permission import KINDS, Permission
from penstock.access.rules import Rules

USERNAME: Final = "{username}"
VHOST: Final = "{vhost}"
"""Variables in expressions; their values match as they are written."""


class ServedRules(Rules):
    """Rules of one login. They last as long as its connection."""

    def __init__(
        self, user: str, vhosts: Sequence[str], tags: Sequence[str], permission: Permission, expressions: Expressions
    ) -> None:
        super().__init__(Epoch())
        self._user = user
        self._vhosts = dict.fromkeys(vhosts)
        self._tags = list(tags)
        self._permission = permission
        self._expressions = expressions

    @override
    def enters(self, vhost: str) -> bool:
        return vhost in self._vhosts

    @override
    def permits(self, kind: str, vhost: str, name: str) -> bool:
        if vhost not in self._vhosts:
            return False
        return self._expressions.matches(expanded(self._permission.expression(kind), self._user, vhost), name)

    @override
    def permits_topic(self, kind: str, vhost: str, exchange: str, routing_key: str) -> bool:
        """See `Rules.permits_topic`: every routing key of an exchange that is permitted."""
        return vhost in self._vhosts

    @override
    def tags(self) -> list[str]:
        return self._tags


def expanded(expression: str, user: str, vhost: str) -> str:
    """Return an expression with the values of its variables."""
    if "{" not in expression:
        return expression
    return expression.replace(USERNAME, escape(user)).replace(VHOST, escape(vhost))


def check_permission(permission: Permission) -> None:
    """Check the expressions of a permission that all users share. Raises PreconditionFailed."""
    for kind in KINDS:
        check_expression(expanded(permission.expression(kind), "x", "x"), f"{kind} permission")
