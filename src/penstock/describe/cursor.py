"""Cursors: their positions, lag, reader, and the producers that wait for them."""

from __future__ import annotations

from typing import Final

from penstock.core.queue.cursor_state import CursorState, Lag, Position, holds_back, lag_of
from penstock.core.queue.queue import Queue
from penstock.describe.described_node import DescribedNode
from penstock.describe.gate import closed_s
from penstock.describe.table import Field, Reading, Row, Table, metric, or_none, reading
from penstock.flow.timers import NEVER

CURSORS: Final = "penstock_cursor_metrics"
"""Group of `/metrics/detailed?family=`."""
QUEUES_SHOWN: Final = 100
"""Most queues of a cursor in one answer; the others are counted."""
QUEUES_SUMMED: Final = 1000
"""Most queues whose lag is added up; a cursor with more has no sums."""
PRODUCERS_SHOWN: Final = 10
"""Most producers in the answer about one cursor; `why` of a queue has more."""
POSITION_WORK: Final = 5
"""Units of work of each queue of a cursor."""
POSITIONS_A_UNIT: Final = 50
"""Cursors of a queue compared per unit of work."""


class Progress:
    """A cursor's position on one queue, with its lag there now; None where it cannot be counted now.

    Its position is among messages on the disk, or in messages that the index of the queue does not have yet (a later
    look finds it there).
    """

    def __init__(self, cursor: CursorState, position: Position, lag: Lag | None) -> None:
        self.cursor = cursor
        self.position = position
        self.queue: Queue = position.queue
        self.lag = lag


def _lag(progress: Progress, at: Reading) -> object:
    """Return the lag in messages, octets (charges) and seconds."""
    lag = progress.lag
    if lag is None:
        return None
    return {"messages": int(lag.messages), "bytes": int(lag.bytes), "oldest_s": lag.oldest_s(at.now)}


def _max_lag(progress: Progress, at: Reading) -> object:
    """Return the limit of lag of the queue, and whether the cursor is beyond it; None without one."""
    limit, lag = progress.queue.settings, progress.lag
    if not limit.limits_lag:
        return None
    messages, size, age_s = limit.cursor_max_lag_messages, limit.cursor_max_lag_bytes, limit.cursor_max_lag_age_s
    beyond = lag is not None and (lag.messages > messages or lag.bytes > size or (lag.oldest_s(at.now) or 0.0) > age_s)
    return {
        "messages": or_none(messages),
        "bytes": or_none(size),
        "age_s": None if age_s == NEVER else age_s,
        "policy": limit.cursor_max_lag_policy,
        "beyond": beyond,
    }


POSITION: Final[Table[Progress]] = Table(
    Field("queue", lambda progress, at: progress.queue.name),
    Field("settled", lambda progress, at: int(progress.position.settled), "messages"),
    Field("planned", lambda progress, at: int(progress.position.planned), "messages"),
    Field("tail", lambda progress, at: int(progress.queue.tail), "messages"),
    Field("deleted", lambda progress, at: progress.queue.deleted),
    Field("left", lambda progress, at: progress.position.left),
    Field("lag", _lag),
    Field("max_lag", _max_lag),
    Field("holds_back", lambda progress, at: holds_back(progress.position), "", "penstock_cursor_holds_back",
           "Whether no other cursor of the queue has settled less (1)", CURSORS),
    Field("gate_open", lambda progress, at: progress.queue.gate.open),
    Field("closed_s", lambda progress, at: closed_s(progress.queue.gate, at.now), "s"),
    Field("blocked", lambda progress, at: len(progress.queue.gate.blocked), "producers"),
    metric("penstock_cursor_lag_messages",
           lambda progress, at: None if progress.lag is None else int(progress.lag.messages),
           "Messages of the queue beyond the settled position; no sample while it cannot be counted", CURSORS),
    metric("penstock_cursor_lag_bytes", lambda progress, at: None if progress.lag is None else int(progress.lag.bytes),
           "Bytes (charges) of those messages", CURSORS),
    metric("penstock_cursor_lag_seconds",
           lambda progress, at: None if progress.lag is None else progress.lag.oldest_s(at.now),
           "Age of the oldest of those messages; no sample while it is on the disk only", CURSORS),
    metric("penstock_cursor_unsettled_messages",
           lambda progress, at: int(progress.queue.tail - progress.position.settled),
           "Sequence of the newest message less that of the position", CURSORS),
    metric("penstock_cursor_idle_seconds", lambda progress, at: asked_s_ago(progress.cursor, at.now),
           "Seconds since the last request of its reader; no sample before the first since the start of the broker",
           CURSORS),
)  # fmt: skip


def cursor_row(cursor: CursorState, node: DescribedNode) -> Row:
    """Return a cursor: its progress and lag by queue, its sums, and its reader."""
    at = reading(node)
    queues: list[Row] = []
    unsettled, messages, size, blocked = 0, 0, 0, 0
    oldest: float | None = 0.0
    counted = len(cursor.positions) <= QUEUES_SUMMED
    for position in cursor.positions.values():
        unsettled += int(position.queue.tail - position.settled)
        if not counted and len(queues) == QUEUES_SHOWN:
            continue
        node.broker.work.done += len(position.queue.cursors) // POSITIONS_A_UNIT
        row = POSITION.row(Progress(cursor, position, lag_of(position, node.broker.work)), at)
        lag = row["lag"]
        if isinstance(lag, dict):
            messages += int(lag["messages"])
            size += int(lag["bytes"])
            oldest = _older(oldest, lag["oldest_s"])
        else:
            counted = False
        blocked += len(position.queue.gate.blocked) if row["holds_back"] else 0
        if len(queues) < QUEUES_SHOWN:
            queues.append(row)
    return {
        "name": cursor.name,
        "vhost": cursor.vhost,
        "queues": queues,
        "more_queues": len(cursor.positions) - len(queues),
        "unsettled": unsettled,
        "lag": {"messages": messages, "bytes": size, "oldest_s": oldest} if counted else None,
        "blocks": blocked,
        "polling": cursor.polling,
        "asked_s_ago": asked_s_ago(cursor, at.now),
        "reader": _reader(cursor, node),
        "read": cursor.counters.as_dict(),
    }


CURSOR: Final[Table[CursorState]] = Table(Field("cursor.*", lambda cursor, at: cursor_row(cursor, at.node)))


def asked_s_ago(cursor: CursorState, now: float) -> float | None:
    """Return the seconds since the reader's last request; None if there was none since the broker's start."""
    return max(now - cursor.touched, 0.0) if cursor.touched else None


def _reader(cursor: CursorState, node: DescribedNode) -> Row | None:
    """Return the connection that attached or planned last, and its query; None if there was none since the start."""
    if not cursor.reader:
        return None
    return {
        "connection": cursor.reader_name,
        "open": is_read(cursor, node),
        "query": None if cursor.room is None else cursor.room.query,
    }


def is_read(cursor: CursorState, node: DescribedNode) -> bool:
    """Return whether the connection that attached or planned last is still there."""
    return cursor.reader in node.connections


def in_use(cursor: CursorState, node: DescribedNode) -> str:
    """Tell who reads through a cursor, as the beginning of a sentence; empty if nobody does."""
    if not is_read(cursor, node):
        return ""
    query = "" if cursor.room is None else f" for query {cursor.room.query}"
    asked = asked_s_ago(cursor, node.broker.now) or 0.0
    return f"cursor '{cursor.name}' is in use by {cursor.reader_name}{query}, which asked {asked:.1f} s ago"


def blocked_rows(cursor: CursorState, now: float) -> list[Row]:
    """Return the producers that wait because of a cursor, the first of each queue that it holds back."""
    found: list[Row] = []
    for position in cursor.positions.values():
        queue = position.queue
        if queue.gate.blocked and len(found) < PRODUCERS_SHOWN and holds_back(position):
            found += _first_blocked(queue, now, PRODUCERS_SHOWN - len(found))
    return found


def _first_blocked(queue: Queue, now: float, most: int) -> list[Row]:
    blocks = list(queue.gate.stats.blocked().values())[:most]
    return [
        {
            "queue": queue.name,
            "producer": block.producer,
            "blocked_for_s": None if block.since is None else now - block.since,
        }
        for block in blocks
    ]


def _older(one: float | None, other: object) -> float | None:
    """Return the higher age; None if one of them is not known."""
    if one is None or not isinstance(other, float):
        return None
    return max(one, other)
