"""JSON text of control replies, encoded in steps."""

from __future__ import annotations

import json
from typing import Final

from penstock.flow.work import Steps, WorkMeter

OCTETS_A_UNIT: Final = 128
"""Octets of JSON that are read or made per unit of work."""
ITEMS_AT_ONCE: Final = 10
"""Items of a list that are encoded per step."""


def text_steps(answer: dict[str, object], work: WorkMeter) -> Steps[bytes]:
    """Return a reply as JSON, equal to `json.dumps`; lists are encoded in steps."""
    members: list[str] = []
    for name, value in answer.items():
        text = (yield from _list_steps(value, work)) if isinstance(value, list) else json.dumps(value)
        members.append(f"{json.dumps(name)}: {text}")
    return f"{{{', '.join(members)}}}".encode()


def _list_steps(items: list[object], work: WorkMeter) -> Steps[str]:
    texts: list[str] = []
    for start in range(0, len(items), ITEMS_AT_ONCE):
        text = json.dumps(items[start : start + ITEMS_AT_ONCE])[1:-1]
        texts.append(text)
        work.done += 1 + len(text) // OCTETS_A_UNIT
        if work.used_up():
            yield
    return f"[{', '.join(texts)}]"
