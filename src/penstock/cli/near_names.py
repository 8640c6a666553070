"""Near matches of names that the broker does not know: what a command is refused for, with the likely name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.target import options_of
from penstock.errors import PenstockError
from penstock.texts import nearest

if TYPE_CHECKING:
    from penstock.client.blocking import Connection

TIME_S: Final = 1.0
"""Seconds that each question to the broker may take; then there is no near match."""
NAMES_MOST: Final = 5_000
"""Names that are compared."""
LISTS: Final = {
    "queue": "queues",
    "exchange": "exchanges",
    "address": "exchanges",
    "vhost": "vhosts",
    "cursor": "cursors",
    "user": "users",
    "policy": "policies",
}
"""Lists of the broker by the word that a sentence has for one of their items."""
UNKNOWN: Final = re.compile(rf"\bno ({'|'.join(LISTS)}) '([^']*)'|^({'|'.join(LISTS)}) '([^'*#]*)' matches nothing yet")


def near_match(connection: Connection, sentence: str) -> str:
    """Return the near match of the name that a sentence says to be unknown, as its last clause; "" for none."""
    found = UNKNOWN.search(sentence)
    if found is None:
        return ""
    kind, name = found[1] or found[3], found[2] or found[4]
    try:
        near = nearest(name, _names(connection, LISTS[kind]))
    except PenstockError:  # Users without a tag may not list anything.
        return ""
    return f"; did you mean '{near}'?" if near else ""


def near_vhost(url: str, sentence: str) -> str:
    """Return the near match of a virtual host that a refused login names; "" for none, or if / may not be entered."""
    from penstock.client.blocking import Connection

    found = re.search(r"vhost (\S+) not found", sentence)
    if found is None:
        return ""
    try:
        with Connection(options_of(url, virtual_host="/", connect_timeout=TIME_S, timeout=TIME_S)) as connection:
            return near_match(connection, f"no vhost '{found[1]}'")
    except PenstockError:
        return ""


def _names(connection: Connection, kind: str) -> list[str]:
    fields: dict[str, object] = {"count": NAMES_MOST} if kind == "users" else {"everywhere": False}
    if kind in ("users", "policies"):
        answer = _ask(connection, "user.list" if kind == "users" else "policy.list", fields)
        return [str(each["name"]) for each in answer[kind]]
    names: list[str] = []
    after: int | None = 0
    while after is not None and len(names) < NAMES_MOST:
        page = _ask(connection, "list", {"kind": kind, "after": after})
        names += [str(each["name"]) for each in page["items"]]
        after = page["next"]
    return names


def _ask(connection: Connection, operation: str, fields: dict[str, object]) -> Any:
    return connection.run(connection.core().requesting(operation, fields, TIME_S))
