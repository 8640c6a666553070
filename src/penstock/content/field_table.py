"""Limits on field tables (arguments of declarations, headers of messages).

The limits are those of AMQP 0-9-1 (section 4.2.5.5), so that a table from any source can be sent to every client.
"""

from __future__ import annotations

from typing import Final

from penstock.content.properties import is_name
from penstock.texts import worded

NESTING_MAX: Final = 32
"""Largest nesting of tables and arrays; a table at the top is at depth 1."""
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_SHOWN: Final = 60
"""Characters of a value in an error text."""


class InvalidTable(ValueError):
    """A table with a value that cannot be sent to a client; `str(error)` describes the fault in one sentence."""


def check_table(table: dict[str, object]) -> None:
    """Raise InvalidTable for a table with a name, a number or a nesting that is too large."""
    _check_table(table, 1)


def _check_table(table: dict[str, object], depth: int) -> None:
    _check_depth(depth)
    for name, value in table.items():
        _check_text(name)
        if not is_name(name):
            raise InvalidTable(f"{worded(name[:_SHOWN])}… has {len(name.encode())} bytes, a short string 255")
        _check_value(value, depth)


def _check_value(value: object, depth: int) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, int):
        if not _INT64_MIN <= value <= _INT64_MAX:
            raise _unfit(value, "a signed integer of 64 bits")
    elif isinstance(value, dict):
        _check_table(value, depth + 1)
    elif isinstance(value, list):
        _check_depth(depth + 1)
        for item in value:
            _check_value(item, depth + 1)


def _check_depth(depth: int) -> None:
    if depth > NESTING_MAX:
        raise InvalidTable(f"a table or array lies more than {NESTING_MAX} deep")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        raise _unfit(text, "UTF-8") from None


def _unfit(value: object, what: str) -> InvalidTable:
    return InvalidTable(f"{worded(value)} does not fit {what}")
