"""Positions in a JSON text, for error messages: the parser reports only positions of syntax errors."""

from __future__ import annotations

import json
import re
from typing import Final

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def line_of(text: str, path: list[str | int]) -> int:
    """Return the line, from 1, of a key or item in a well-formed JSON text; of its parent if it is missing."""
    at = _skip(text, 0)
    found = at
    for step in path:
        place = _item(text, at, step) if isinstance(step, int) else _key(text, at, step)
        if place is None:
            break
        found, at = place
    return text.count("\n", 0, found) + 1


def _key(text: str, at: int, name: str) -> tuple[int, int] | None:
    """Return the positions of a key of the object at `at`, and of its value."""
    if text[at] != "{":
        return None
    at = _skip(text, at + 1)
    while text[at] == '"':
        match = _STRING.match(text, at)
        assert match is not None
        value = _skip(text, _skip(text, match.end()) + 1)
        if json.loads(match[0]) == name:
            return at, value
        at = _skip(text, _end(text, value))
        if text[at] == ",":
            at = _skip(text, at + 1)
    return None


def _item(text: str, at: int, index: int) -> tuple[int, int] | None:
    """Return the position of an item of the array at `at`, twice, because it has no key."""
    if text[at] != "[":
        return None
    at = _skip(text, at + 1)
    while text[at] != "]":
        if index == 0:
            return at, at
        index -= 1
        at = _skip(text, _end(text, at))
        if text[at] == ",":
            at = _skip(text, at + 1)
    return None


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None
    return match.end()


def _end(text: str, at: int) -> int:
    """Return the end of the value at `at`."""
    return int(json.JSONDecoder().raw_decode(text, at)[1])
