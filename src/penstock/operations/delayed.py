"""Delayed messages of a queue: listed by due time, made ready before they are due, or cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.access.permission import MANAGEMENT
from penstock.connections.authorization import check_read_queue
from penstock.connections.control_request import ControlRequest
from penstock.core.message import StoredMessage
from penstock.core.queue.delays import LISTED_MOST, Delays, delays_of, number_of, number_text
from penstock.core.queue.queue import Queue
from penstock.describe.table import Row
from penstock.errors import NotFound, PreconditionFailed
from penstock.flow.work import Steps
from penstock.management.node import Node
from penstock.management.operation import LOOKS, VHOST, Operation, Route

ALL: Final = "all"
"""Id that stands for all delayed messages of a queue."""
ACTED_AT_ONCE: Final = 100
"""Messages that are made ready, or cancelled, between two looks at the share of the turn."""


def list_delayed(node: Node, request: ControlRequest) -> Row:
    """Answer the first delayed messages of a queue by due time, at most `count`, and the number of all.

    Raises NotFound (404), AccessRefused (403).
    """
    queue = _queue(request)
    count = min(request.amount("count", LISTED_MOST), LISTED_MOST)
    delays = delays_of(queue)
    first = [] if delays is None else delays.first(count)
    node.broker.work.count(len(first))
    return {"messages": [_row(node, message) for message in first], "total": int(queue.delayed_messages)}


def _row(node: Node, message: StoredMessage) -> Row:
    broker, envelope = node.broker, message.envelope
    due = envelope.due_time()
    return {
        "id": number_text(message),
        "due_at": round((due + broker.wall_offset) * 1000),
        "due_in_s": round(max(due - broker.now, 0.0), 3),
        "exchange": envelope.exchange,
        "routing_key": envelope.routing_key,
        "bytes": int(broker.formats.body_bytes(message.content)),
        "persistent": envelope.persistent,
        "failures": message.failures,
    }


def send_now(node: Node, request: ControlRequest) -> Steps[Row]:
    """Make a delayed message ready before it is due, or all of a queue. Raises NotFound (404), AccessRefused (403)."""
    return _act(node, request, Delays.make_ready, Delays.make_first_ready)


def cancel(node: Node, request: ControlRequest) -> Steps[Row]:
    """Remove a delayed message, or all of a queue: no dead letters. Raises NotFound (404), AccessRefused (403)."""
    return _act(node, request, Delays.cancel, Delays.cancel_first)


def _act(
    node: Node,
    request: ControlRequest,
    one: Callable[[Delays, StoredMessage, float], bool],
    several: Callable[[Delays, int, float], int],
) -> Steps[Row]:
    queue, broker = _queue(request), node.broker
    given = request.text("id")
    number = None if given == ALL else number_of(given)
    if number is None and given != ALL:
        raise PreconditionFailed(f"'id' must be the id of a delayed message, such as d1, or '{ALL}', not '{given}'")
    delays = delays_of(queue)
    done = 0
    if number is not None:
        found = None if delays is None else (yield from delays.find(number))
        if delays is None or found is None or not one(delays, found, broker.now):
            raise NotFound(f"queue '{queue.name}' has no delayed message '{given}'")
        done = 1
    left = int(queue.delayed_messages) if number is None else 0
    while delays is not None and left > 0:
        acted = several(delays, min(left, ACTED_AT_ONCE), broker.now)
        done += acted
        left = left - acted if acted else 0
        if broker.work.used_up():
            yield
    if done and queue.storage is not None:
        queue.storage.journal.require_flush()
    return {"queue": queue.name, "messages": done, "left": int(queue.delayed_messages)}


def _queue(request: ControlRequest) -> Queue:
    name = request.text("queue")
    check_read_queue(request.access, name)
    return request.vhost.queue(name, request.connection)


def _by_path(fields: Row) -> Row:
    named = {name: value for name, value in fields.items() if name not in ("name", "vhost")}
    return {**named, "queue": fields["name"]}


DELAYED: Final = "/penstock/queues/{vhost}/{name}/delayed"
OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("message.delayed", list_delayed, ("queue", "count"), tag=MANAGEMENT, permissions=("read queue",),
              how=LOOKS, audited=False, asks=VHOST, routes=(
        Route(f"GET {DELAYED}", "List the delayed messages of a queue by due time.", query=("count",), read=_by_path),
    )),
    Operation("message.send-now", send_now, ("queue", "id"), tag=MANAGEMENT, permissions=("read queue",), asks=VHOST,
              routes=(
        Route(f"POST {DELAYED}/send-now", "Make the delayed message `id` ready before it is due; `all` of them.",
              needed=("id",), read=_by_path),
    )),
    Operation("message.cancel", cancel, ("queue", "id"), tag=MANAGEMENT, permissions=("read queue",), asks=VHOST,
              routes=(
        Route(f"POST {DELAYED}/cancel", "Remove the delayed message `id`, or `all` of them, without dead letters.",
              needed=("id",), read=_by_path),
    )),
)  # fmt: skip
