"""Search over the names of all nouns, for a field of a page: queues, exchanges, connections, users, virtual hosts.

A search goes through references in steps, and stops at a number of names of each noun. Names that begin with the text
are before those that contain it. If `near` is wanted, a noun without such a name has the names that are near to it.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import MANAGEMENT
from penstock.connections.connection import Connection
from penstock.connections.control_request import ControlRequest
from penstock.describe.list_kinds import (
    CONNECTIONS,
    CURSORS,
    EXCHANGES,
    QUEUES,
    VHOSTS,
    Item,
    ListKind,
    is_gone,
    is_seen,
    names_of,
)
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.management.node import Node
from penstock.management.operation import ALL, Answer, Operation, looking
from penstock.management.operation import Route as Path
from penstock.operations import joins, users
from penstock.operations.joins import FOUND_MOST
from penstock.operations.near_names import NEAR_WORK, NearNames

TEXT_CHARACTERS: Final = 256
"""Most characters of a text to find."""
LOOKED_AT_ONCE: Final = 50
"""Names that are compared between two looks at the share of the slice."""
KINDS: Final[tuple[tuple[str, ListKind], ...]] = (
    ("queue", QUEUES),
    ("exchange", EXCHANGES),
    ("connection", CONNECTIONS),
    ("user", users.KIND),
    ("vhost", VHOSTS),
    ("cursor", CURSORS),
)
"""Nouns in the order of an answer."""


def find(node: Node, request: ControlRequest) -> Steps[Answer]:
    """Answer the names that contain a text, in either case: {q, near}. Raises PreconditionFailed (406)."""
    text = request.text("q", "").lower()
    if not text or len(text) > TEXT_CHARACTERS:
        raise PreconditionFailed(f"'q' must be a text of 1 to {TEXT_CHARACTERS} characters, not of {len(text):,}")
    wants_near = request.flag("near")
    found: list[Row] = []
    near: list[Row] = []
    searched: Row = {}
    work, access = node.broker.work, request.access
    for noun, kind in KINDS:
        if not access.rules.has_tag(kind.tag):
            continue
        first: list[Row] = []
        others: list[Row] = []
        around = NearNames(text)
        looked, units = 0, LOOKED_AT_ONCE * (1 + NEAR_WORK) if wants_near else LOOKED_AT_ONCE
        for vhost, subjects in kind.groups(node, None):
            for subject in list(subjects):
                item = Item(kind.name_of(subject), vhost, subject)
                looked += 1
                if looked % LOOKED_AT_ONCE == 0 and work.spend(units):
                    yield
                names = [*names_of(item), *_given(subject)]
                matching = [name for name in names if text in name.lower()]
                if not (matching or wants_near) or is_gone(item) or not is_seen(node, item, access.rules, access.user):
                    continue
                row: Row = {"noun": noun, "name": item.name, "vhost": None if vhost is None else vhost.name}
                if not matching:
                    around.offer(names, row)
                    continue
                matching.sort(key=lambda name: not name.lower().startswith(text))
                line = first if matching[0].lower().startswith(text) else others
                if len(line) < FOUND_MOST:
                    line.append({**row, "matched": matching[0]})
        searched[noun] = looked
        found += [*first, *others][:FOUND_MOST]
        near += [] if first or others else around.rows()
    return {"found": found, "searched": searched, **({"near": near} if wants_near else {})}


def _given(subject: object) -> list[str]:
    """Return the name that the client of a connection chose."""
    given = subject.peer.properties.get("connection_name") if isinstance(subject, Connection) else None
    return [given] if isinstance(given, str) else []


OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("", find, ("q", "near"), tag=MANAGEMENT, asks=ALL, join=joins.FOUND, routes=(
        Path("GET /penstock/find", f"Find names that contain the text `q`: at most {FOUND_MOST} queues, exchanges, "
             "connections, users, virtual hosts and cursors each. With `near=true` a noun without one has near names.",
             query=("q", "near"), flags=("near",)),
    )),
)  # fmt: skip
