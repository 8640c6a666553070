"""The table of docs/logs.md: every log id with its level, its meaning and what to do."""

from __future__ import annotations

from penstock.logs.ids import CATALOGUE, LEVEL_NAMES

GROUPS = {
    "BRK": "The broker",
    "CON": "Connections",
    "QUE": "Queues",
    "CHN": "Channels",
    "MST": "The store's quota",
    "VHT": "The disk",
    "PST-1": "Flow control",
    "PST-2": "Operation",
}
"""Titles of the tables, by the beginning of their ids."""


def tables() -> dict[str, str]:
    """Return the tables, with a heading each, by their name."""
    parts = []
    for prefix, title in GROUPS.items():
        rows = sorted(each for each in ((e.name, LEVEL_NAMES[e.level], e.meaning, e.action) for e in CATALOGUE)
                      if each[0].startswith(prefix))  # fmt: skip
        lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        parts.append(f"### {title}\n\n| id | level | meaning | what to do |\n|---|---|---|---|\n{lines}")
    return {"log ids": "\n".join(parts)}
