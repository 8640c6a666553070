"""The table of docs/trouble.md: the kinds of alarms, as the code has them."""

from __future__ import annotations

from penstock.management.alarms import KINDS


def tables() -> dict[str, str]:
    """Return the table by its name."""
    lines = ["| kind | severity | raised when | what to do |", "|---|---|---|---|"]
    lines += [f"| `{kind.name}` | {kind.severity} | {kind.meaning} | {kind.action} |" for kind in KINDS]
    return {"alarms": "\n".join(lines) + "\n"}
