"""Rows and phrases about queries of Spark: leases of batch reads, and batches of queries that publish."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.publish.sink_state import SinkState
from penstock.core.queue.cursor_state import REACHED_AT_ONCE, CursorState, LeaseState, Position, passed_by_all
from penstock.core.queue.indexed_ready_queue import REACH_WORK
from penstock.core.queue.queue import Queue
from penstock.describe.table import Field, Row, Table
from penstock.flow.level import amount
from penstock.flow.timers import NEVER
from penstock.flow.work import WorkMeter

QUEUES_SHOWN: Final = 100
"""Queues of a lease in its row."""


def held_by_lease(position: Position, work: WorkMeter) -> int:
    """Return the number of messages in the range of a lease that are in a queue only for leases.

    If very many are still unread, a later look counts more: counting moves messages into the index.
    """
    queue = position.queue
    if queue.deleted:
        return 0
    passed = passed_by_all(queue)
    end: i64 = position.planned if position.planned < passed else passed
    if end <= position.settled:
        return 0
    left = REACHED_AT_ONCE
    while left > 0 and not position.line.reach(end):
        work.done += REACH_WORK
        left -= 1
    return int(position.line.count_through(end)[0] - position.line.count_through(position.settled)[0])


def _range(position: Position, cursor: CursorState, work: WorkMeter) -> Row:
    pinned = cursor in position.queue.cursors
    return {
        "queue": position.queue.name,
        "lo": int(position.settled),
        "hi": int(position.planned),
        "pinned": pinned,
        "held": held_by_lease(position, work) if pinned else 0,
    }


def lease_row(lease: LeaseState, now: float, work: WorkMeter) -> Row:
    """Return a lease: its owner, its pinned messages, and its end."""
    cursor = lease.cursor
    positions = list(cursor.positions.values())
    queues = [_range(position, cursor, work) for position in positions[:QUEUES_SHOWN]]
    return {
        "name": str(lease.number),
        "number": lease.number,
        "vhost": lease.vhost,
        "user": lease.user,
        "query": lease.query or None,
        "client": lease.client,
        "reader": cursor.reader_name or None,
        "queues": queues,
        "more_queues": len(positions) - len(queues),
        "held": sum([held_by_lease(each, work) for each in positions if cursor in each.queue.cursors]),
        "opened_s_ago": max(now - lease.opened, 0.0),
        "ends_in_s": max(lease.until - now, 0.0),
        "finished": lease.finished,
        "read": cursor.counters.as_dict(),
    }


def sink_row(sink: SinkState, now: float) -> Row:
    """Return the present batch of a query at a target: its publisher, its staged rows, and when they are dropped."""
    rows = sink.staged(None)
    staged: Row | None = None
    if rows.messages > 0:
        ends = sink.staged_until()
        staged = {
            "messages": int(rows.messages),
            "bytes": int(rows.bytes),
            "ends_in_s": None if ends == NEVER else max(ends - now, 0.0),
        }
    return {
        "name": sink.query,
        "query": sink.query,
        "vhost": sink.vhost,
        "user": sink.user,
        "client": sink.client or None,
        "target": sink.target,
        "batch": int(sink.batch),
        "spread": sink.spread or None,
        "marks": int(sink.records()),
        "staged": staged,
        "asked_s_ago": max(now - sink.touched, 0.0),
        "ends_in_s": max(sink.until() - now, 0.0),
    }


LEASE: Final[Table[LeaseState]] = Table(
    Field("lease.*", lambda lease, at: lease_row(lease, at.now, at.node.broker.work))
)
SINK: Final[Table[SinkState]] = Table(Field("sink.*", lambda sink, at: sink_row(sink, at.now)))


# Phrases


def lease_end(lease: LeaseState, now: float) -> str:
    """Return when a lease ends, and how to end it."""
    when = f"{max(lease.until - now, 0.0):.1f} s"
    how = f"all was read, and it ends in {when}" if lease.finished else f"it ends in {when} without another block"
    return f"{how} (`penstock leases end {lease.number}`)"


def staged_line(sink: SinkState, queue: Queue, now: float) -> str:
    """Describe the staged rows of a query for a queue; empty without any."""
    rows = sink.staged(queue)
    if rows.messages == 0:
        return ""
    return (
        f"query {sink.query} of user {sink.user or '(unknown)'}{f' ({sink.client})' if sink.client else ''} has staged "
        f"{amount(rows.messages)} messages, {amount(rows.bytes)} bytes, for queue {queue.name} in batch {sink.batch}: "
        "they are in no queue yet, count in the limits of the virtual host and the node, and are dropped in "
        f"{max(sink.staged_until() - now, 0.0):,.0f} s without a request (`penstock sinks end {sink.query}`)"
    )
