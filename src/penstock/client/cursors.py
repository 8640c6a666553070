"""Cursors: their positions, batches and ranges, as steps of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.client.control_operations import Answer, Names, asking
from penstock.client.engine.connection import Engine
from penstock.client.engine.waits import Steps
from penstock.client.errors import ClientError

ATTACH: Final = "cursor.attach"
PLAN: Final = "cursor.plan"
RANGE: Final = "cursor.range"
SETTLE: Final = "cursor.settle"
DELETE: Final = "cursor.delete"
"""Operations of a reader."""
Places = str | Mapping[str, int]
""""earliest", "latest", or sequence numbers by queue."""


class Attached(NamedTuple):
    """Result of `attach_cursor`; a sequence number S of a queue means everything up to S."""

    token: int
    initial: dict[str, int]
    settled: dict[str, int]
    tail: dict[str, int]
    created: bool


class Plan(NamedTuple):
    """Result of `plan_batch`: the end of the next batch, the end of the queues, and the batch's size."""

    end: dict[str, int]
    tail: dict[str, int]
    rows: int
    bytes: int


def create_cursor(engine: Engine, cursor: str, queues: Names, at: Places = "earliest") -> Steps[dict[str, int]]:
    """Create a cursor without a reader, at "earliest", "latest" or sequence numbers; return where each queue begins.

    Raises `ControlError` 405 for a cursor that exists, or as `attach_cursor`.
    """
    fields = {"cursor": cursor, "queues": list(queues), "starting": at, "create": True}
    answer = yield from asking(engine, ATTACH, fields)
    return dict(answer["initial"])


def show_cursor(engine: Engine, cursor: str) -> Steps[Answer]:
    """Return a cursor with its lag by queue and its reader; for an administrator also the producers that wait.

    Raises `ControlError` 404 for a cursor that does not exist.
    """
    return (yield from asking(engine, "cursor.show", {"cursor": cursor}))


def move_cursor(
    engine: Engine, cursor: str, to: Places, *, dry_run: bool = False, force: bool = False
) -> Steps[Answer]:
    """Move a cursor to "earliest", "latest" or sequence numbers; `dry_run` only returns what a move would do.

    `force` moves it while a reader uses it: the reader gets an error at its next request. Raises `ControlError` 404,
    405 for a cursor in use, and 406 for an impossible position.
    """
    return (yield from asking(engine, "cursor.move", {"cursor": cursor, "to": to, "dry_run": dry_run, "force": force}))


def release_cursor(engine: Engine, cursor: str, queues: Names) -> Steps[None]:
    """Release the positions of a cursor on queues that its subscription no longer includes.

    Raises `ControlError` 404 for a queue that the cursor does not read, 406 for a subscribed queue.
    """
    yield from asking(engine, "cursor.release", {"cursor": cursor, "queues": list(queues)})


def delete_cursor(engine: Engine, cursor: str) -> Steps[None]:
    """Delete a cursor; its queues become ordinary queues again."""
    yield from asking(engine, DELETE, {"cursor": cursor})


def attach_cursor(
    engine: Engine, cursor: str, queues: Names, starting: Places = "earliest", *, takeover: bool = False
) -> Steps[Attached]:
    """Attach to a cursor, creating it if necessary; `starting` is "earliest", "latest" or sequence numbers by queue.

    The new token fences earlier readers off. A refused attach changes nothing. Raises `ControlError` 405 while another
    connection reads through the cursor, unless `takeover`.
    """
    fields = {"cursor": cursor, "queues": list(queues), "starting": starting, "takeover": takeover}
    answer = yield from asking(engine, ATTACH, fields)
    return Attached(
        answer["token"], answer["initial"], answer["settled"], answer["tail"], bool(answer.get("created", False))
    )


def plan_batch(
    engine: Engine,
    cursor: str,
    token: int,
    start: Mapping[str, int],
    *,
    settle: Mapping[str, int] | None = None,
    rows: int | None = None,
    bytes: int | None = None,
    wait: float = 0.0,
    upto: Mapping[str, int] | None = None,
) -> Steps[Plan]:
    """Fix the next batch after `start`, of at most `rows` messages and `bytes` bytes (None: no limit).

    `settle` settles processed messages; `wait` is how many seconds the broker may wait for a first message; `upto`
    bounds the batch by sequence numbers. Without new messages `end` equals `start`.
    """
    holder = {"cursor": cursor, "token": token, "settle": settle, "start": start}
    fields = {**holder, "rows": rows, "bytes": bytes, "wait_ms": round(wait * 1000), "upto": upto}
    answer = yield from asking(engine, PLAN, fields, wait)
    return Plan(answer["end"], answer["tail"], answer["rows"], answer["bytes"])


def read_range(
    engine: Engine,
    cursor: str,
    token: int,
    queue: str,
    lo: int,
    hi: int,
    *,
    rows: int,
    bytes: int,
    columns: Names | None = None,
    query: str | None = None,
) -> Steps[memoryview]:
    """Return a block of the first messages of (lo, hi] within `rows` and `bytes`; no message is removed.

    `columns` are the columns of the block (docs/inside/blocks.md); None: the twelve that every version has. `query` is
    the id of the Spark query that reads, and is shown beside the cursor; None: the reader is no query.
    """
    fields: Answer = {"cursor": cursor, "token": token, "queue": queue, "lo": lo, "hi": hi}
    if columns is not None:
        fields["columns"] = list(columns)
    if query is not None:
        fields["query"] = query
    answer = yield from engine.requesting(RANGE, {**fields, "rows": rows, "bytes": bytes})
    if not isinstance(answer, memoryview):
        raise ClientError("the broker answered cursor.range with an object where a block was due")
    return answer


def settle_cursor(engine: Engine, cursor: str, token: int, end: Mapping[str, int]) -> Steps[dict[str, int]]:
    """Settle everything up to `end`; return the settled positions, which never decrease."""
    answer = yield from asking(engine, SETTLE, {"cursor": cursor, "token": token, "end": end})
    return dict(answer["settled"])
