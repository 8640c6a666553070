"""Near matches of names that the broker does not know: what a command is refused for, with the likely name."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.setting_names.near import nearest

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.client.control import ControlClient
    from penstock.client.parameters import Parameters

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
    from penstock.client.control import ControlClient

    found = UNKNOWN.search(sentence)
    if found is None:
        return ""
    kind, name = found[1] or found[3], found[2] or found[4]
    try:
        with ControlClient(connection, timeout=TIME_S) as control:
            near = nearest(name, _names(control, LISTS[kind]))
    except PenstockError:  # Users without a tag may not list anything.
        return ""
    return f"; did you mean '{near}'?" if near else ""


def near_vhost(where: Parameters, sentence: str) -> str:
    """Return the near match of a virtual host that a refused login names; "" for none, or if / may not be entered."""
    from penstock.client.connection import Connection

    found = re.search(r"vhost (\S+) not found", sentence)
    if found is None:
        return ""
    try:
        with Connection(where._replace(virtual_host="/"), connect_timeout=TIME_S, timeout=TIME_S) as connection:
            return near_match(connection, f"no vhost '{found[1]}'")
    except PenstockError:
        return ""


def _names(control: ControlClient, kind: str) -> list[str]:
    if kind not in ("users", "policies"):
        return [str(each["name"]) for each in itertools.islice(control.listed(kind), NAMES_MOST)]
    fields: dict[str, object] = {"count": NAMES_MOST} if kind == "users" else {"everywhere": False}
    answer = control.request("user.list" if kind == "users" else "policy.list", fields)
    assert isinstance(answer, dict)
    return [str(each["name"]) for each in answer[kind]]
