"""Positions in a JSON text, for error messages: the parser reports only positions of syntax errors."""

from __future__ import annotations

import json
import re
from typing import Final

_BLANK: Final = re.compile(r"[ \t\r\n]*")


def line_of(text: str, path: list[str | int]) -> int:
    """Return the line, from 1, of a key or item in a well-formed JSON text; of its parent if it is missing."""
    at = _skip(text, 0)
    found = at
    for step in path:
        place = _find(text, at, step)
        if place is None:
            break
        found, at = place
    return text.count("\n", 0, found) + 1


def _find(text: str, at: int, step: str | int) -> tuple[int, int] | None:
    """Return the positions of a key of the object at `at`, or an item of the array there, and of its value."""
    is_key = isinstance(step, str)
    if text[at] != ("{" if is_key else "["):
        return None
    at = _skip(text, at + 1)
    index = 0
    while text[at] not in "}]":
        name: object = index
        value = at
        if is_key:
            name, end = _decoded(text, at)
            value = _skip(text, _skip(text, end) + 1)
        if name == step:
            return at, value
        index += 1
        at = _skip(text, _decoded(text, value)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
    return None


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None
    return match.end()


def _decoded(text: str, at: int) -> tuple[object, int]:
    """Return the value at `at`, and its end."""
    value, end = json.JSONDecoder().raw_decode(text, at)
    return value, int(end)
