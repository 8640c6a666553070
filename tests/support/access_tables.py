"""The tables of docs/security.md, made from the table of operations.

`PYTHONPATH=src python -m tests.support.access_tables` writes them into the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from penstock.access.operations import AMQP_0_9_1, AMQP_1_0
from penstock.operations.table import CONTROL
from penstock.server.http.app import TABLE
from tests.support.http_reference import method_order

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
BEGIN, END = "<!-- table of {} -->", "<!-- end of table -->"


def tables() -> dict[str, list[str]]:
    """Return the lines of each table by its name."""
    return {
        "AMQP 0-9-1": list(_of_permissions(AMQP_0_9_1)),
        "AMQP 1.0": list(_of_permissions(AMQP_1_0)),
        "control operations": list(_of_control()),
        "HTTP": list(_of_http()),
    }


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


def _of_http() -> Iterator[str]:
    yield "| path | methods | tag | virtual host | permissions |"
    yield "| --- | --- | --- | --- | --- |"
    for path, places in sorted(TABLE.items()):
        by_need: dict[tuple[str, str, str], list[str]] = {}
        for method, place in sorted(places.items(), key=method_order):
            need = place.need
            permissions = ", ".join(need.permissions) or "-"
            by_need.setdefault((need.tag, need.vhost or "-", permissions), []).append(method)
        for (tag, vhost, permissions), named in by_need.items():
            yield f"| `{path}` | {' '.join(named)} | {tag} | {vhost} | {permissions} |"


def with_tables(page: str) -> str:
    """Return a page with its tables made anew."""
    for name, lines in tables().items():
        begin = BEGIN.format(name)
        before, found, rest = page.partition(begin)
        assert found, f"the page has no place for the table of {name}"
        after = rest[rest.index(END) :]
        page = "\n".join([before + begin, "", *lines, "", after])
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
