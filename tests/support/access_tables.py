"""The tables of docs/inside/access.md, made from the tables of operations."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.operations.table import CONTROL
from tests.support.access_needs import AMQP_0_9_1, AMQP_1_0


def tables() -> dict[str, str]:
    """Return the tables by their names."""
    lines = {
        "AMQP 0-9-1": _of_permissions(AMQP_0_9_1),
        "AMQP 1.0": _of_permissions(AMQP_1_0),
        "the control exchange": _of_control(),
    }
    return {f"operations of {name}": "\n".join(each) for name, each in lines.items()}


def _of_permissions(rows: dict[str, tuple[str, ...]]) -> Iterator[str]:
    yield "| operation | needs |"
    yield "| --- | --- |"
    for row, needs in rows.items():
        if needs:
            yield f"| `{row}` | {', '.join(needs)} |"
    yield f"| {', '.join(f'`{row}`' for row, needs in rows.items() if not needs)} | nothing more |"


def _of_control() -> Iterator[str]:
    yield "| operation | tag | permissions |"
    yield "| --- | --- | --- |"
    by_need: dict[tuple[str, str], list[str]] = {}
    for name, row in CONTROL.items():
        by_need.setdefault((row.tag or "-", ", ".join(row.permissions) or "-"), []).append(name)
    for (tag, permissions), names in by_need.items():
        yield f"| {', '.join(f'`{name}`' for name in names)} | {tag} | {permissions} |"
