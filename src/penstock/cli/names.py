"""Names that the broker knows: offered by shell completion, and near matches of those that it does not know."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from penstock.cli.target import options_of
from penstock.errors import PenstockError
from penstock.texts import SCOPE_NOUNS, nearest

if TYPE_CHECKING:
    from penstock.client.blocking import Connection
    from penstock.client.options import Options

TIME_S: Final = 1.0
"""Seconds that questions to the broker may take; then there are no names and no near match."""
OFFERED_MOST: Final = 200
"""Most names that are offered."""
NAMES_MOST: Final = 5_000
"""Most names that are asked for."""
LISTS: Final = {
    **{scope: SCOPE_NOUNS[scope] for scope in ("queue", "address", "vhost", "user")},
    "exchange": SCOPE_NOUNS["address"],
    "cursor": "cursors",
    "policy": "policies",
}
"""Lists of the broker by the word that a sentence or an argument has for one of their items."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names_of(kind: str) -> Complete:
    """Return a completion by the names of a kind: "queues", "exchanges", "users", "policies" and so on."""
    return lambda context, _, incomplete: _items(context, kind, incomplete)


def names_by_scope(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names that fit the scope, which is the argument before: `penstock limits set user NAME`."""
    kind = LISTS.get(str(context.params.get("scope")))
    return [] if kind is None else _items(context, kind, incomplete)


def names_of_target(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return queues, or exchanges with --exchange: the target of a binding."""
    return _items(context, "exchanges" if context.params.get("to_exchange") else "queues", incomplete)


def _items(context: click.Context, kind: str, incomplete: str) -> list[CompletionItem]:
    """Return names that begin so; none if the broker cannot be asked within TIME_S."""
    url = context.params.get("url")
    if not isinstance(url, str):
        return []
    try:
        with context.scope(cleanup=False):
            where = options_of(url, connect_timeout=TIME_S, timeout=TIME_S)
    except PenstockError:
        return []
    found: list[str] = []
    asking = threading.Thread(target=_find, args=(where, kind, incomplete, found), daemon=True)
    asking.start()
    asking.join(TIME_S)
    return [CompletionItem(name) for name in sorted(set(found))]


def _find(where: Options, kind: str, begin: str, found: list[str]) -> None:
    """Add names that a shell can take to `found`; in a thread, which is left alone after TIME_S."""
    from penstock.client.blocking import Connection

    try:
        with Connection(where) as connection:
            names = _begun(connection, begin) if kind == "queues" else _names(connection, kind)
    except (PenstockError, OSError):
        return
    found += [name for name in names if name.startswith(begin) and name.isprintable()][:OFFERED_MOST]


def _begun(connection: Connection, begin: str) -> list[str]:
    """Return the names of queues that begin so."""
    page = _ask(connection, "top", {"prefix": begin, "count": OFFERED_MOST})
    return [str(each["name"]) for each in page["items"]]


# Near matches

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
