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


IN_VHOST = "a permission in the virtual host"
"""A need that the page states once: paths that name a virtual host have it, unless only some tags may use them."""
USUAL_TAG = "management"
"""The tag of most paths, which the page states once."""
STAND_INS = ("Refuse with 405: this cannot be done here.", "Return an empty list: there is nothing of this kind.")
"""Purposes of paths of RabbitMQ's that have nothing to show here: they are in one list each."""


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield the purpose, the methods and the path, the tag and other needs of each row, in the order of the paths."""
    for path, places in sorted(TABLE.items()):
        by_purpose: dict[tuple[str, ...], list[str]] = {}
        for method, place in sorted(places.items(), key=method_order):
            need = place.need
            vhost = "" if need.vhost == IN_VHOST else need.vhost
            needs = "; ".join(filter(None, (vhost, ", ".join(need.permissions))))
            by_purpose.setdefault((sentence(place.handler), need.tag, needs), []).append(method)
        for (purpose, tag, needs), methods in by_purpose.items():
            yield purpose, f"{' '.join(methods)} `{path}`", tag, needs


def tables() -> dict[str, str]:
    """Return the tables, one for each first part of the paths, by their name. Rows with one purpose are one row."""
    parts: dict[str, dict[tuple[str, str], list[tuple[str, str]]]] = {}
    stand_ins: dict[str, list[str]] = {}
    for purpose, place, tag, needs in rows():
        if purpose in STAND_INS:
            stand_ins.setdefault(purpose, []).append(f"{place} ({tag})")
        else:
            parts.setdefault(place.split("/")[1].rstrip("`"), {}).setdefault((purpose, tag), []).append((place, needs))
    found: list[str] = []
    for part, by_purpose in parts.items():
        found += ["", f"## {part}", "", "| path | | needs |", "| --- | --- | --- |"]
        for (purpose, tag), places in by_purpose.items():
            besides = dict.fromkeys(needs for _, needs in places if needs)
            needs = "; ".join((*([] if tag == USUAL_TAG else [tag]), *besides))
            found.append(f"| {'<br>'.join(place for place, _ in places)} | {purpose} | {needs} |")
    found += ["", "## Paths without a function here"]
    for purpose, listed in stand_ins.items():
        found += ["", f"{purpose.partition(':')[0]}:", "", *(f"- {place}" for place in listed)]
    return {"http paths": "\n".join(found)}
