"""JSON text of control replies and of the console's events, encoded in steps."""

from __future__ import annotations

import json
from typing import Final

from penstock.flow.work import Steps, WorkMeter

OCTETS_A_UNIT: Final = 128
"""Octets of JSON that are read or made per unit of work."""
ITEMS_AT_ONCE: Final = 4
"""Items of a list that are encoded per step."""


def text_steps(answer: dict[str, object], work: WorkMeter) -> Steps[bytes]:
    """Return a reply as JSON, equal to `json.dumps`; lists are encoded in steps."""
    parts: list[bytes] = []
    before = "{"
    for name, value in answer.items():
        head = f"{before}{json.dumps(name)}: "
        before = ", "
        if isinstance(value, list):
            parts.append(head.encode())
            yield from _list_steps(value, parts, work)
        else:
            parts.append((head + json.dumps(value)).encode())
    parts.append(b"}" if answer else b"{}")
    return b"".join(parts)


def _list_steps(items: list[object], parts: list[bytes], work: WorkMeter) -> Steps[None]:
    before = "["
    for start in range(0, len(items), ITEMS_AT_ONCE):
        text = before + json.dumps(items[start : start + ITEMS_AT_ONCE])[1:-1]
        before = ", "
        parts.append(text.encode())
        if work.spend(1 + len(text) // OCTETS_A_UNIT):
            yield
    parts.append(b"]" if items else b"[]")
