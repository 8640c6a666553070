"""Cursors as plain data: positions, lag, reader, and the producers that wait for them.

Everything is read from the deciding code when it is asked for; nothing is counted twice. `penstock list cursors`,
`cursor.show`, HTTP and metrics share these functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.queue.cursor import Cursor, Position
from penstock.core.queue.cursor_lag import Lag, holds_back, lag_of
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.management.node import Node

Shape = dict[str, object]

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


def cursor_view(cursor: Cursor, node: Node) -> Shape:
    """Return a cursor: its progress and lag by queue, its sums, and its reader.

    A lag is null where it cannot be counted now: its position is among messages on the disk, or in messages that the
    index of the queue does not have yet (a later look finds it there).
    """
    now = node.broker.now
    queues: list[Shape] = []
    unsettled, messages, size, blocked = 0, 0, 0, 0
    oldest: float | None = 0.0
    counted = len(cursor.positions) <= QUEUES_SUMMED
    for position in cursor.positions.values():
        unsettled += int(position.queue.tail - position.settled)
        if not counted and len(queues) == QUEUES_SHOWN:
            continue
        view = position_view(position, node)
        lag = view["lag"]
        if isinstance(lag, dict):
            messages += int(lag["messages"])
            size += int(lag["bytes"])
            oldest = _older(oldest, lag["oldest_s"])
        else:
            counted = False
        blocked += len(position.queue.gate.blocked) if view["holds_back"] else 0
        if len(queues) < QUEUES_SHOWN:
            queues.append(view)
    return {
        "name": cursor.name,
        "vhost": cursor.vhost,
        "queues": queues,
        "more_queues": len(cursor.positions) - len(queues),
        "unsettled": unsettled,
        "lag": {"messages": messages, "bytes": size, "oldest_s": oldest} if counted else None,
        "blocks": blocked,
        "polling": cursor.polling,
        "asked_s_ago": asked_s_ago(cursor, now),
        "reader": reader_view(cursor, node),
        "read": cursor.counters.as_dict(),
    }


def position_view(position: Position, node: Node) -> Shape:
    """Return a cursor's position on one queue, and its lag there in messages, octets (charges) and seconds."""
    broker = node.broker
    stats = position.queue.gate.stats
    broker.work.done += len(position.queue.cursors) // POSITIONS_A_UNIT
    lag = lag_of(position, broker.work)
    return {
        "queue": position.queue.name,
        "settled": int(position.settled),
        "planned": int(position.planned),
        "tail": int(position.queue.tail),
        "deleted": position.queue.deleted,
        "left": position.left,
        "lag": None
        if lag is None
        else {"messages": int(lag.messages), "bytes": int(lag.bytes), "oldest_s": lag.oldest_s(broker.now)},
        "max_lag": max_lag_view(position.queue.settings, lag, broker.now),
        "holds_back": holds_back(position),
        "gate_open": position.queue.gate.open,
        "closed_s": stats.closed_s + (0.0 if stats.since is None else broker.now - stats.since),
        "blocked": len(position.queue.gate.blocked),
    }


def max_lag_view(limit: Settings, lag: Lag | None, now: float) -> Shape | None:
    """Return the limit of lag of a queue (null is no limit), and whether a cursor is beyond it; None without one."""
    if not limit.limits_lag:
        return None
    messages, size, age_s = limit.cursor_max_lag_messages, limit.cursor_max_lag_bytes, limit.cursor_max_lag_age_s
    beyond = lag is not None and (lag.messages > messages or lag.bytes > size or (lag.oldest_s(now) or 0.0) > age_s)
    return {
        "messages": None if messages == UNLIMITED else int(messages),
        "bytes": None if size == UNLIMITED else int(size),
        "age_s": None if age_s == NEVER else age_s,
        "policy": limit.cursor_max_lag_policy,
        "beyond": beyond,
    }


def asked_s_ago(cursor: Cursor, now: float) -> float | None:
    """Return the seconds since the reader's last request; None if there was none since the broker's start."""
    return max(now - cursor.touched, 0.0) if cursor.touched else None


def reader_view(cursor: Cursor, node: Node) -> Shape | None:
    """Return the connection that attached or planned last, and its query; None if there was none since the start."""
    if not cursor.reader:
        return None
    return {
        "connection": cursor.reader_name,
        "open": is_read(cursor, node),
        "query": None if cursor.room is None else cursor.room.query,
    }


def is_read(cursor: Cursor, node: Node) -> bool:
    """Return whether the connection that attached or planned last is still there."""
    return cursor.reader in node.connections


def in_use(cursor: Cursor, node: Node) -> str:
    """Tell who reads through a cursor, as the beginning of a sentence; empty if nobody does."""
    if not is_read(cursor, node):
        return ""
    query = "" if cursor.room is None else f" for query {cursor.room.query}"
    asked = asked_s_ago(cursor, node.broker.now) or 0.0
    return f"cursor '{cursor.name}' is in use by {cursor.reader_name}{query}, which asked {asked:.1f} s ago"


def blocked_view(cursor: Cursor, now: float) -> list[Shape]:
    """Return the producers that wait because of a cursor, the first of each queue that it holds back."""
    found: list[Shape] = []
    for position in cursor.positions.values():
        queue = position.queue
        if queue.gate.blocked and len(found) < PRODUCERS_SHOWN and holds_back(position):
            found += _first_blocked(queue, now, PRODUCERS_SHOWN - len(found))
    return found


def _first_blocked(queue: Queue, now: float, most: int) -> list[Shape]:
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
