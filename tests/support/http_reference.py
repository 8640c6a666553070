"""The table of docs/reference/http-paths.md, made from the table of paths and the table of operations.

The words about a path are the first
sentence of its handler's docstring.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from penstock.server.http.app import TABLE


def sentence(handler: object) -> str:
    """Return the first paragraph of a handler's docstring, as one line."""
    return " ".join((inspect.getdoc(handler) or "").split("\n\n")[0].split())


def method_order(item: tuple[str, object]) -> int:
    """Return the place of a method in a row."""
    return ("GET", "PUT", "POST", "DELETE").index(item[0])


def rows() -> Iterator[tuple[str, str]]:
    """Yield the first part of each path and its rows, in the order of the paths."""
    for path, places in sorted(TABLE.items()):
        by_purpose: dict[tuple[str, ...], list[str]] = {}
        for method, place in sorted(places.items(), key=method_order):
            need = place.need
            needs = "; ".join(filter(None, (need.vhost, ", ".join(need.permissions)))) or "-"
            by_purpose.setdefault((sentence(place.handler), need.tag, needs), []).append(method)
        for (purpose, tag, needs), methods in by_purpose.items():
            yield path.split("/")[1], f"| {' '.join(methods)} | `{path}` | {purpose} | {tag} | {needs} |"


def tables() -> dict[str, str]:
    """Return the tables, one for each first part of the paths, by their name."""
    found: list[str] = []
    heading = ""
    for part, row in rows():
        if part != heading:
            heading = part
            found += ["", f"## {part}", "", "| method | path | | tag | and |", "| --- | --- | --- | --- | --- |"]
        found.append(row)
    return {"http paths": "\n".join(found)}
