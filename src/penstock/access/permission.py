"""Permissions of a user in a virtual host, and tags, as in RabbitMQ's access control guide.

Expressions are those of RE2, which takes linear time, compiled once for all permissions with the same text. An
expression may match anywhere in a name, as in RabbitMQ: `^` and `$` anchor it. The empty expression matches the empty
name only (in RabbitMQ it is read as `^$`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.errors import PreconditionFailed

CONFIGURE: Final = "configure"
"""Declare and delete."""
WRITE: Final = "write"
"""Publish, and be the target of a binding."""
READ: Final = "read"
"""Consume, get, purge, and be the source of a binding."""
PERMISSION_KINDS: Final = (CONFIGURE, WRITE, READ)
VARIABLES: Final = ("{username}", "{vhost}", "{client_id}")
"""Variables in expressions; only those of topic permissions have the last one."""
EXPRESSION_OCTETS: Final = 4096
"""Longest expression, in bytes."""
EXPRESSION_MEMORY: Final = 1024 * 1024
"""Memory of a compiled expression with its caches, in bytes; RE2 refuses expressions that need more."""
COMPILED_MOST: Final = 256
"""Most cached compiled expressions; beyond, the oldest is compiled again when needed."""
_EVERYTHING: Final = ".*"
"""The commonest expression, which needs no matching."""


class Epoch:
    """Version number of all access rules. A permission that was checked is valid while this number is unchanged.

    Checks for each message read it in place.
    """

    def __init__(self) -> None:
        self.count: i64 = 0


class Texts:
    """Expressions of one permission, compared by their texts."""

    def texts(self) -> tuple[str, ...]:
        """Return all expressions."""
        raise NotImplementedError

    def octets(self) -> int:
        """Return the memory of the texts, in bytes."""
        return sum(map(len, self.texts()))

    def __eq__(self, other: object) -> bool:
        """Compare the texts."""
        return isinstance(other, Texts) and self.texts() == other.texts()

    def __hash__(self) -> int:
        """Return a number by the texts."""
        return hash(self.texts())


class Permission(Texts):
    """Expressions for the names of queues and exchanges that may be configured, written and read; "" permits none."""

    def __init__(self, configure: str, write: str, read: str) -> None:
        self.configure = configure
        self.write = write
        self.read = read

    def expression(self, kind: str) -> str:
        """Return the expression of a kind."""
        if kind == WRITE:
            return self.write
        return self.read if kind == READ else self.configure

    @override
    def texts(self) -> tuple[str, ...]:
        return self.configure, self.write, self.read

    def check(self, user: str, vhost: str) -> None:
        """Check all expressions. Raises PreconditionFailed naming user, virtual host, kind and expression."""
        for kind in PERMISSION_KINDS:
            check_expression(self.expression(kind), f"{kind} permission of user '{user}' in vhost '{vhost}'")


class TopicPermission(Texts):
    """Expressions for the routing keys that may be published to a topic exchange, and bound or read from it."""

    def __init__(self, write: str, read: str) -> None:
        self.write = write
        self.read = read

    def expression(self, kind: str) -> str:
        """Return the expression of a kind; topics have no configure permission (in RabbitMQ neither)."""
        return self.write if kind == WRITE else self.read

    @override
    def texts(self) -> tuple[str, ...]:
        return self.write, self.read

    def check(self, user: str, vhost: str, exchange: str) -> None:
        """Check both expressions. Raises PreconditionFailed naming user, virtual host, exchange and expression."""
        for kind in (WRITE, READ):
            check_expression(
                expanded(self.expression(kind), "x", "x", "x"),
                f"topic {kind} permission of user '{user}' for exchange '{exchange}' in vhost '{vhost}'",
            )


class Expressions:
    """Compiled expressions by text, at most `COMPILED_MOST`."""

    def __init__(self) -> None:
        self._compiled: dict[str, Any] = {}

    def matches(self, expression: str, name: str) -> bool:
        """Return whether an expression matches in a name. The expression was checked before: see `check_expression`."""
        if expression == _EVERYTHING:
            return True
        if not expression:
            return not name
        compiled = self._compiled.get(expression)
        if compiled is None:
            try:
                compiled = compile_expression(expression)
            except PreconditionFailed:
                return False  # The stored expression was checked by another version of RE2.
            if len(self._compiled) >= COMPILED_MOST:
                del self._compiled[next(iter(self._compiled))]
            self._compiled[expression] = compiled
        return compiled.search(name.encode(errors="surrogateescape")) is not None


def compile_expression(expression: str) -> Any:
    """Compile an expression for bytes of UTF-8. Raises PreconditionFailed with RE2's reason."""
    import re2  # Loaded with the first expression that is not `.*`.

    options = re2.Options()
    options.log_errors = False
    options.max_mem = EXPRESSION_MEMORY
    try:
        return re2.compile(expression.encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        raise PreconditionFailed(_reason(error)) from None


def _reason(error: Exception) -> str:
    given = error.args[0] if error.args else ""
    if isinstance(given, bytes):
        return given.decode(errors="replace")
    return "it is not UTF-8" if isinstance(error, UnicodeEncodeError) else str(given)


def check_expression(expression: str, what: str) -> None:
    """Check an expression; `what` names its owner, for the error.

    Raises PreconditionFailed naming it, the expression and RE2's reason. RE2 has neither look-around nor references
    to groups, which would take exponential time.
    """
    try:
        octets = len(expression.encode())
    except UnicodeEncodeError:
        raise PreconditionFailed(f"{what} is not UTF-8") from None
    if octets > EXPRESSION_OCTETS:
        raise PreconditionFailed(f"{what} has {octets} bytes; at most {EXPRESSION_OCTETS} are permitted")
    if not expression or expression == _EVERYTHING:
        return
    try:
        compile_expression(expression)
    except PreconditionFailed as refused:
        raise PreconditionFailed(f"{what}: RE2 refuses '{expression}': {refused}") from None


def expanded(expression: str, *values: str) -> str:
    """Return an expression with the values of the first `VARIABLES`, which match literally; "" leaves a variable
    unexpanded.
    """
    if "{" not in expression:
        return expression
    import re2

    for variable, value in zip(VARIABLES, values, strict=False):
        if value:
            expression = expression.replace(variable, re2.escape(value))
    return expression


ADMINISTRATOR: Final = "administrator"
"""All rights: users, permissions, virtual hosts, settings, and the rights of the other tags."""
MONITORING: Final = "monitoring"
"""Seeing the whole node: all connections, channels and virtual hosts; and the rights of the tag management."""
POLICYMAKER: Final = "policymaker"
"""Changing policies and parameters; and the rights of the tag management."""
MANAGEMENT: Final = "management"
"""Using the HTTP API, for the user's rights over AMQP."""
TAGS: Final = (ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT)
"""Tags with a meaning. Other tags are stored without a meaning (as in RabbitMQ)."""


def grants(tags: Iterable[str], needed: str) -> bool:
    """Return whether one of these tags includes the rights of `needed`; "" is always granted.

    Administrator includes all others, monitoring and policymaker include management.
    """
    if not needed:
        return True
    for tag in tags:
        if tag == needed or tag == ADMINISTRATOR:
            return True
        if needed == MANAGEMENT and (tag == MONITORING or tag == POLICYMAKER):
            return True
    return False
