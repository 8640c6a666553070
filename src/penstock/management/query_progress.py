"""Progress of Spark queries: `query.progress` answers with the lag of a query, and records it in the flow log.

A query's listener knows its batches, the broker knows its cursors and the producers that wait for them. The operation
brings both together: one record a query and second at most, of queries that read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.access.permission import READ
from penstock.core.queue.cursor import Cursor
from penstock.describe.cursor import cursor_row
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed
from penstock.management.control_request import ControlRequest

if TYPE_CHECKING:
    from penstock.management.node import Node

QUERY_LETTERS: Final = 255
"""Longest id of a query."""
CURSORS_SHOWN: Final = 10
"""Most cursors of a query in an answer."""
COUNTS: Final = ("batch", "rows", "batch_ms")
"""Numbers of a query's listener that go into the record as they are."""


def answer(node: Node, request: ControlRequest) -> Row:
    """Answer {query, batch, rows, batch_ms}: the cursors of a query, empty for one that does not read here.

    Raises PreconditionFailed (406) for an id that is none.
    """
    query = request.text("query")
    if not 0 < len(query) <= QUERY_LETTERS:
        raise PreconditionFailed(f"'query' must have 1 to {QUERY_LETTERS} letters, not {len(query):,}")
    counts = {name: request.amount(name, 0) for name in COUNTS if request.fields.get(name) is not None}
    room = node.broker.pinned_rooms.of(query)
    cursors = [] if room is None else [each for each in room.cursors if _is_readable(request, each)]
    views = [cursor_row(cursor, node) for cursor in cursors[:CURSORS_SHOWN]]
    for cursor, view in zip(cursors, views, strict=False):
        node.record_query(query, cursor, {**_record(cursor, view), **counts})
    return {"query": query, "cursors": views, "more_cursors": len(cursors) - len(views)}


def _is_readable(request: ControlRequest, cursor: Cursor) -> bool:
    """Tell whether the requester may read all queues of a cursor of its virtual host."""
    return cursor.vhost == request.vhost.name and all(request.access.may(READ, name) for name in cursor.positions)


def _record(cursor: Cursor, view: Row) -> Row:
    """Return the fields of a record: the sums of a cursor, and the queue where it lags most."""
    found: Row = {"vhost": cursor.vhost, "consumer": f"cursor({cursor.name})"}
    lag, queues = view["lag"], view["queues"]
    if isinstance(lag, dict):
        found.update({"lag_messages": lag["messages"], "lag_bytes": lag["bytes"]})
        if lag["oldest_s"] is not None:
            found["oldest_s"] = round(lag["oldest_s"], 3)
    most = -1
    closed_s = 0.0
    assert isinstance(queues, list)
    for each in queues:
        closed_s += each["closed_s"]
        behind = 0 if each["lag"] is None else each["lag"]["messages"]
        if behind > most:
            most = behind
            found["queue"] = each["queue"]
    found["blocked"] = view["blocks"]
    found["closed_s"] = round(closed_s, 3)
    return found
