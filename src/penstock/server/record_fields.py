"""Fields of records in JSON that processes of a node pass on: readers, which refuse values of other types.

Each reader returns the value, or raises TypeError or ValueError.
"""

from __future__ import annotations

from math import isfinite


def text_field(value: object) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise TypeError
    return value


def flag_field(value: object) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise TypeError
    return value


def time_field(value: object) -> float | None:
    """Return a time in seconds, or None."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise TypeError
    return float(value)


def texts_field(value: object) -> tuple[str, ...]:
    """Return texts."""
    if not isinstance(value, list):
        raise TypeError
    return tuple(text_field(each) for each in value)


def texts_or_none_field(value: object) -> tuple[str, ...] | None:
    """Return texts, or None."""
    return None if value is None else texts_field(value)


def permission_field(value: object) -> tuple[str, ...]:
    """Return the three expressions of a permission."""
    texts = texts_field(value)
    if len(texts) != 3:
        raise ValueError
    return texts
