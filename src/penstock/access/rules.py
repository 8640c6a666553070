"""Rules of one login: the interface that enforcement asks, and its answers from the table of users."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr
from typing_extensions import override

from penstock.access.access_table import AccessTable
from penstock.access.epoch import Epoch
from penstock.access.expressions import escape
from penstock.access.tags import grants


@mypyc_attr(allow_interpreted_subclasses=True)
class Rules:
    """The rules of one login. A virtual host must be entered before its resources are asked for.

    `epoch` counts the changes of its answers.
    """

    def __init__(self, epoch: Epoch) -> None:
        self.epoch: Final = epoch

    def enters(self, vhost: str) -> bool:
        """Tell whether it may open a virtual host."""
        raise NotImplementedError

    def permits(self, kind: str, vhost: str, name: str) -> bool:
        """Tell whether it may CONFIGURE, WRITE or READ the queue or exchange `name`."""
        raise NotImplementedError

    def permits_topic(self, kind: str, vhost: str, exchange: str, routing_key: str) -> bool:
        """Tell whether it may WRITE or READ a routing key of a topic exchange."""
        raise NotImplementedError

    def tags(self) -> list[str]:
        """Return its tags."""
        raise NotImplementedError

    def has_tag(self, needed: str) -> bool:
        """Tell whether its tags grant another one; "" is always granted."""
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
