"""Regular expressions of permissions: RE2, which takes linear time, compiled once for all who share a text.

A name is searched for the expression anywhere, as RabbitMQ does: `^` and `$` anchor it. The empty expression matches
the empty name only (in RabbitMQ it is read as `^$`).
"""

from __future__ import annotations

from typing import Any, Final

from penstock.errors import PreconditionFailed

EXPRESSION_OCTETS: Final = 4096
"""Longest expression, in octets."""
EXPRESSION_MEMORY: Final = 1024 * 1024
"""Memory of a compiled expression with what it caches, in bytes; RE2 refuses one that needs more."""
COMPILED_MOST: Final = 256
"""Compiled expressions that are kept; beyond, the oldest is compiled again when it is needed."""
EVERYTHING: Final = ".*"
"""The commonest expression; it is not asked for."""


class Expressions:
    """Compiled expressions by text, at most `COMPILED_MOST`."""

    def __init__(self) -> None:
        self._compiled: dict[str, Any] = {}

    def matches(self, expression: str, name: str) -> bool:
        """Tell whether an expression is found in a name. It was checked before: see `check_expression`."""
        if expression == EVERYTHING:
            return True
        if not expression:
            return not name
        compiled = self._compiled.get(expression)
        if compiled is None:
            try:
                compiled = compile_expression(expression)
            except PreconditionFailed:
                return False  # It was checked by another version of RE2, before it was stored.
            if len(self._compiled) >= COMPILED_MOST:
                del self._compiled[next(iter(self._compiled))]
            self._compiled[expression] = compiled
        return compiled.search(name.encode(errors="surrogateescape")) is not None


def compile_expression(expression: str) -> Any:
    """Compile an expression for octets of UTF-8. Raises PreconditionFailed with RE2's reason."""
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
    """Check an expression; `what` names whose it is, for the error.

    Raises PreconditionFailed naming it, the expression and RE2's reason. RE2 has neither look-around nor references
    to groups, which would take exponential time.
    """
    try:
        octets = len(expression.encode())
    except UnicodeEncodeError:
        raise PreconditionFailed(f"{what} is not UTF-8") from None
    if octets > EXPRESSION_OCTETS:
        raise PreconditionFailed(f"{what} has {octets} octets; at most {EXPRESSION_OCTETS} are permitted")
    if not expression or expression == EVERYTHING:
        return
    try:
        compile_expression(expression)
    except PreconditionFailed as refused:
        raise PreconditionFailed(f"{what}: RE2 refuses '{expression}': {refused}") from None


def escape(text: str) -> str:
    """Return an expression that matches exactly this text."""
    import re2

    return str(re2.escape(text))
