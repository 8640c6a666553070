"""What a binding of a headers exchange asks of a message's headers (AMQP 0-9-1 section 3.1.3.4; RabbitMQ 3.10)."""

from __future__ import annotations

from typing import Final

from penstock.core.values import alike, text_of, type_name
from penstock.errors import PreconditionFailed

ALL: Final = "all"
ANY: Final = "any"
ALL_WITH_X: Final = "all-with-x"
ANY_WITH_X: Final = "any-with-x"
X_MATCH: Final = "x-match"
"""Says which: all arguments (the default) or any; those with x look at arguments whose names begin with x- as well."""


class Demand:
    """Headers that must be there: all of them, or any."""

    __slots__ = ("any", "wanted")

    def __init__(self, arguments: dict[str, object]) -> None:
        mode = arguments.get(X_MATCH, ALL)
        self.any: bool = mode == ANY or mode == ANY_WITH_X
        with_x = mode == ALL_WITH_X or mode == ANY_WITH_X
        self.wanted: list[tuple[str, object]] = [
            (name, alike(value))
            for name, value in arguments.items()
            if name != X_MATCH and (with_x or not name.startswith("x-"))
        ]

    def met_by(self, headers: dict[str, object]) -> bool:
        """Tell whether a message with these headers is meant.

        An argument without a value (void) asks for the header, whatever it says. Where nothing is asked for, "all" is
        met by every message and "any" by none.
        """
        for name, value in self.wanted:
            hit = name in headers and (value is None or alike(headers[name]) == value)
            if hit == self.any:
                return hit
        return not self.any


def check_demand(arguments: dict[str, object]) -> None:
    """Raises PreconditionFailed (406) for an x-match that cannot be meant."""
    if X_MATCH not in arguments:
        return
    mode = arguments[X_MATCH]
    if not isinstance(mode, str):
        raise PreconditionFailed(
            f"Invalid x-match field type {type_name(mode)} (value {text_of(mode)}); expected longstr"
        )
    if mode not in (ALL, ANY, ALL_WITH_X, ANY_WITH_X):
        raise PreconditionFailed(f"Invalid x-match field value '{mode}'; expected all, any, all-with-x, or any-with-x")
