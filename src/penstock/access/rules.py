"""Rules of one login: the interface that enforcement asks, its answers from the table of users, and their cache."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.access.access_table import AccessTable
from penstock.access.permission import Epoch, escape, grants
from penstock.errors import AccessRefused

CACHED_MOST: Final = 32
"""Permitted answers that a connection keeps; beyond, the oldest is forgotten. (RabbitMQ keeps 12 a channel.)"""
DEFAULT_EXCHANGE: Final = "amq.default"
"""Name of the default exchange in permissions (as in RabbitMQ)."""
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"


@mypyc_attr(allow_interpreted_subclasses=True)
class Rules:
    """The rules of one login. A virtual host must be entered before its resources are asked for.

    `epoch` counts the changes of its answers.
    """

    def __init__(self, epoch: Epoch) -> None:
        self.epoch: Final = epoch

    def enters(self, vhost: str) -> bool:
        """Return whether it may open a virtual host."""
        raise NotImplementedError

    def permits(self, kind: str, vhost: str, name: str) -> bool:
        """Return whether it may CONFIGURE, WRITE or READ the queue or exchange `name`."""
        raise NotImplementedError

    def permits_topic(self, kind: str, vhost: str, exchange: str, routing_key: str) -> bool:
        """Return whether it may WRITE or READ a routing key of a topic exchange."""
        raise NotImplementedError

    def tags(self) -> list[str]:
        """Return its tags."""
        raise NotImplementedError

    def has_tag(self, needed: str) -> bool:
        """Return whether its tags grant another one; "" is always granted."""
        return grants(self.tags(), needed)


@mypyc_attr(allow_interpreted_subclasses=True)
class UserRules(Rules):
    """Rules of a user in the table. A user that is deleted may do nothing."""

    def __init__(self, table: AccessTable, user: str, client_id: str = "") -> None:
        super().__init__(table.epoch)
        self._table = table
        self._user = user
        self._client_id = client_id
        """Name that the client gave itself, for topic permissions; "" leaves its variable as it is written."""

    @override
    def enters(self, vhost: str) -> bool:
        return self._table.may_enter(self._user, vhost)

    @override
    def permits(self, kind: str, vhost: str, name: str) -> bool:
        return self._table.permits(self._user, kind, vhost, name)

    @override
    def permits_topic(self, kind: str, vhost: str, exchange: str, routing_key: str) -> bool:
        """See `Rules.permits_topic`: without a topic permission for the exchange all keys are permitted (RabbitMQ)."""
        permission = self._table.topic_permission(self._user, vhost, exchange)
        if permission is None:
            return True
        expression = self._expanded(permission.expression(kind), vhost)
        return self._table.expressions.matches(expression, routing_key)

    @override
    def tags(self) -> list[str]:
        user = self._table.find(self._user)
        return [] if user is None else user.tags

    def _expanded(self, expression: str, vhost: str) -> str:
        """Return an expression with the values of its variables, which match as they are written."""
        if "{" not in expression:
            return expression
        for variable, value in (("{username}", self._user), ("{vhost}", vhost), ("{client_id}", self._client_id)):
            if value and variable in expression:
                expression = expression.replace(variable, escape(value))
        return expression


class ConnectionAccess:
    """Access of a connection to its virtual host, with refusals in RabbitMQ's words.

    Only what is permitted is kept, until the rules change.
    """

    def __init__(self, rules: Rules, user: str, vhost: str) -> None:
        self.rules = rules
        self.user = user
        self.vhost = vhost
        self._permitted: dict[tuple[str, ...], None] = {}
        """Queues and exchanges, and routing keys of topic exchanges, whose tuples are longer."""
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
        self._keep(asked)

    def may(self, kind: str, name: str) -> bool:
        """Return whether a queue or exchange may be accessed, for lists of what a client may see."""
        return self.rules.permits(kind, self.vhost, name)

    def check_topic(self, kind: str, exchange: str, routing_key: str) -> None:
        """Check access to a routing key of a topic exchange. Raises AccessRefused (403), in RabbitMQ's words."""
        self._renew()
        asked = (kind, EXCHANGE, exchange, routing_key)
        if asked in self._permitted:
            return
        if not self.rules.permits_topic(kind, self.vhost, exchange, routing_key):
            raise AccessRefused(
                f"{kind} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{self.vhost}' "
                f"refused for user '{self.user}'"
            )
        self._keep(asked)

    def _renew(self) -> None:
        """Forget all answers when the rules have changed."""
        if self.epoch.count != self._checked:
            self._checked = self.epoch.count
            self._permitted.clear()

    def _keep(self, asked: tuple[str, ...]) -> None:
        if len(self._permitted) >= CACHED_MOST:
            del self._permitted[next(iter(self._permitted))]
        self._permitted[asked] = None
