"""Checks of passwords by an HTTP back end (RabbitMQ's `auth_backend_http`), for users that the table does not know.

Theory of operation. A thread sends requests for the user, and then for each virtual host, so that no operation waits
for a request. The answers are the rules of the login. A successful login is remembered for a time by a keyed digest of
its password, because HTTP requests carry the password each time. Refusals are not remembered.

The rules of such a login are the virtual hosts that the back end permits, with one permission in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mypy_extensions import mypyc_attr
from typing_extensions import override

from penstock.access.access_table import AccessTable, name_flaw
from penstock.access.permission import PERMISSION_KINDS, Epoch, Expressions, Permission, check_expression, expanded
from penstock.access.rules import CredentialCheck, LoginMemory, Rules
from penstock.errors import PenstockError

PASSWORD_LETTERS: Final = 4096
"""Longest password, in characters."""
VHOSTS_MOST: Final = 100
"""Most virtual hosts that a login requests, the first declared; it cannot enter others."""


class BackEndError(PenstockError):
    """An invalid answer, or a refusal; the text quotes no password."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BackEnd:
    """Server that knows users. Both requests are sent in a thread, may wait, and raise BackEndError."""

    def tags_of(self, user: str, password: str) -> list[str]:
        """Return the tags of a user whose password is right; raises BackEndError if it is wrong."""
        raise NotImplementedError

    def entered(self, user: str, vhosts: list[str], address: str, tags: list[str]) -> list[str]:
        """Return the virtual hosts among these that a user may open; `address` is the client's, without its port."""
        raise NotImplementedError


class ServedRules(Rules):
    """Rules of one login. They last as long as its connection."""

    def __init__(
        self, user: str, vhosts: Sequence[str], tags: Sequence[str], permission: Permission, expressions: Expressions
    ) -> None:
        super().__init__(Epoch())
        self._user = user
        self._vhosts = dict.fromkeys(vhosts)
        self._tags = list(tags)
        self.permission = permission
        """Permission in each of the virtual hosts."""
        self._expressions = expressions

    def vhosts(self) -> list[str]:
        """Return the virtual hosts that the user may open."""
        return list(self._vhosts)

    @override
    def enters(self, vhost: str) -> bool:
        return vhost in self._vhosts

    @override
    def permits(self, kind: str, vhost: str, name: str) -> bool:
        if vhost not in self._vhosts:
            return False
        return self._expressions.matches(expanded(self.permission.expression(kind), self._user, vhost), name)

    @override
    def permits_topic(self, kind: str, vhost: str, exchange: str, routing_key: str) -> bool:
        """See `Rules.permits_topic`: every routing key of a permitted exchange."""
        return vhost in self._vhosts

    @override
    def tags(self) -> list[str]:
        return self._tags


class ServedUsers:
    """Users of a back end, for one broker. The secret is random; digests without it are useless."""

    def __init__(
        self,
        table: AccessTable,
        back_end: BackEnd,
        secret: bytes,
        permission: Permission,
        cache_s: float,
        now: Callable[[], float],
    ) -> None:
        """`now` returns monotonic seconds."""
        self.table = table
        self.back_end = back_end
        self.permission = permission
        self._cache_s = cache_s
        self._memory: LoginMemory[ServedRules] = LoginMemory(secret, cache_s, now)

    def knows(self, user: str) -> bool:
        """Return whether the back end decides about a user: the table does not know the user."""
        return user != "" and self.table.find(user) is None

    def check(self, user: str, password: str) -> CredentialCheck:
        """Return the check of a user's password."""
        return BackEndCheck(self, user, password)

    def recall(self, user: str, password: str, address: str) -> ServedRules | None:
        """Return the rules of a recent successful login; None if the back end must be asked."""
        return self._memory.get(user, [address, password])

    def remember(self, user: str, password: str, address: str, rules: ServedRules) -> None:
        """Remember a login that succeeded."""
        if self._cache_s > 0:
            self._memory.put(user, [address, password], rules)


class BackEndCheck(CredentialCheck):
    """Check of one password."""

    def __init__(self, users: ServedUsers, user: str, password: str) -> None:
        self.user = user
        self.back_end = True
        self._users = users
        self._password = password
        self._vhosts: list[str] = list(users.table.vhosts)[:VHOSTS_MOST]
        self._rules: ServedRules | None = None
        self._error: str = "its back end was not asked"
        self._asked: bool = False

    @override
    def is_slow(self) -> bool:
        flaw = name_flaw(self.user)
        if flaw:
            self._error = f"the name of the user {flaw}"
            return False
        if len(self._password) > PASSWORD_LETTERS:
            self._error = f"the password has more than {PASSWORD_LETTERS} characters"
            return False
        self._rules = self._users.recall(self.user, self._password, self.address)
        return self._rules is None

    @override
    def verify(self) -> None:
        self._asked = True
        back_end = self._users.back_end
        try:
            tags = back_end.tags_of(self.user, self._password)
            entered = back_end.entered(self.user, self._vhosts, self.address, tags)
        except BackEndError as error:
            self._error = f"user '{self.user}': {error}"
            return
        users = self._users
        self._rules = ServedRules(self.user, entered, tags, users.permission, users.table.expressions)

    @override
    def refusal(self) -> str:
        if self._rules is None:
            return self._error
        if not self._users.knows(self.user):
            return f"user '{self.user}' was added while its back end was asked"
        if self._asked:
            self._users.remember(self.user, self._password, self.address, self._rules)
        return ""

    @override
    def rules(self) -> Rules | None:
        return self._rules


def check_permission(permission: Permission) -> None:
    """Check the expressions of a permission that all users share. Raises PreconditionFailed."""
    for kind in PERMISSION_KINDS:
        check_expression(expanded(permission.expression(kind), "x", "x"), f"{kind} permission")
