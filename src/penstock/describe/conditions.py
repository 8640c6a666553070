"""Order of rows, and conditions on rows: the same for lists of the broker and for columns that only a command computes.

This module imports nothing of the broker, so that commands start fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.errors import ConfigError

Key = tuple[int, str | float]
"""Sort key of a value: missing ones first, then numbers, then texts."""
TEST: Final = re.compile(r"([^=<>!~]+)(!=|>=|<=|=|>|<|!~|~)(.*)", re.DOTALL)


class Condition(NamedTuple):
    """Condition on a column: = and != compare with a value, ~ and !~ with an expression, all others with a number."""

    column: str
    operator: str
    value: str


def condition_of(text: str) -> Condition:
    """Parse a condition, such as messages>9. Raises ConfigError."""
    match = TEST.fullmatch(text)
    if match is None:
        raise ConfigError(f"'{text}' is no test: write COLUMN=VALUE, COLUMN>NUMBER or COLUMN~EXPRESSION")
    column, operator, value = match[1].strip(), match[2], match[3].strip()
    if operator[0] in "<>" and number_of(value) is None:
        raise ConfigError(f"'{text}': '{value}' is no number")
    return Condition(column, operator, value)


def number_of(text: str) -> float | None:
    """Return the number in a text, with separators or as a percentage; None for another text."""
    try:
        return float(text.replace(",", "").replace("_", "").removesuffix("%"))
    except ValueError:
        return None


def holds(condition: Condition, value: object, matches: Callable[[str], bool] | None) -> bool:
    """Return whether a value meets a condition: numbers are compared as numbers, other values by their texts.

    `matches` is the expression of the operators ~ and !~.
    """
    operator = condition.operator
    if operator in ("~", "!~"):
        assert matches is not None
        return matches(text_of(value)) == (operator == "~")
    if operator in ("=", "!="):
        return equals(value, condition.value) == (operator == "=")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    bound = number_of(condition.value)
    assert bound is not None
    if operator[0] == ">":
        return value > bound or (operator == ">=" and value == bound)
    return value < bound or (operator == "<=" and value == bound)


def equals(value: object, wanted: str) -> bool:
    """Return whether a value equals the value in a text; a missing value is written - or empty."""
    if value is None:
        return wanted in ("", "-")
    if isinstance(value, bool):
        return wanted in (("true", "yes") if value else ("false", "no"))
    if isinstance(value, int | float):
        return value == number_of(wanted)
    return text_of(value) == wanted


def text_of(value: object) -> str:
    """Return the text of a value for comparison in conditions; empty for a missing value."""
    return "" if value is None else value if isinstance(value, str) else cell(value)


def cell(value: object) -> str:
    """Return a value as a table cell."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, dict):  # Arguments, as a command reads them.
        return " ".join(
            f"{name}={str(item).lower() if isinstance(item, bool) else item}" for name, item in value.items()
        )
    return str(value)


def key_of(value: object) -> Key:
    """Return the sort key of a value."""
    if isinstance(value, (bool, int, float)):
        return 1, float(value)
    return (0, "") if value is None else (2, str(value))
