"""Control operations that look at the broker: `list`, `status` and `top`.

Queues of `top` are ranked in steps and only the first are made rows, so that a refresh each second costs little with
thousands of queues.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock.content.names import answers_control
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.gates.disk import Disk
from penstock.core.queue.queue import Queue
from penstock.describe import history, lists
from penstock.describe.connection import connection_row
from penstock.describe.gate import gate_row
from penstock.describe.lists import KINDS, PAGE_MOST, Highest, Item, Rows, groups, is_gone, is_seen, work_of
from penstock.describe.message_stats import Depths, deliver_rate, publish_rate
from penstock.describe.queue import QUEUE, fill_percent, queue_row
from penstock.describe.table import Row, amounts, or_none, reading
from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.protocols.common.control_request import ControlRequest

if TYPE_CHECKING:
    from penstock.management.node import Node

STATUS_MOST: Final = 500
"""Most queues, and most connections, in a status; `list` gives all, page by page."""
SLOWED_SHOWN: Final = 20
"""Most slowed connections that `status` names; `why` explains each."""
VIEW_WORK: Final = 10
"""Units of work per shown queue or connection."""
COUNT_MOST: Final = 500
"""Most queues in an answer of `top`."""
COUNT_DEFAULT: Final = 100
HISTORIES_MOST: Final = 100
"""Most queues with a history in an answer, so that it stays small: the first."""
SHOWN_WORK: Final = 25
"""Units of work per queue that is shown; its history costs as much again, and one that is only ranked costs 1."""
RANKED_WORK: Final = 1
RANKED_AT_ONCE: Final = 100
"""Queues ranked per step."""


def answer_list(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer list {kind, after, count, everywhere}: a page, and where the next one begins (null at the end).

    The requesting connection and its exclusive objects are omitted. The page begins after `after` items.
    """
    kind = request.text("kind")
    if kind not in KINDS:
        raise PreconditionFailed(f"'kind' must be one of {', '.join(KINDS)}, not '{kind}'")
    count = max(min(request.amount("count", PAGE_MOST), PAGE_MOST), 1)
    everywhere = request.fields.get("everywhere") is True or kind == "vhosts"
    found = groups(node, kind, None if everywhere else request.vhost)
    what = f"list {kind} {everywhere}"
    after = request.amount("after", 0)
    page, following = yield from node.control.lists.page_steps(request.connection, after, what, found, count)
    rows = Rows(node, as_bindings=kind == "bindings")
    items: list[Row] = []
    for item in page:
        shown = not _of_asker(item, request) and not is_gone(item)
        if shown and is_seen(node, item, request.access.rules, request.access.user):
            items.append(rows.of(item.subject))
        if node.broker.work.spend(work_of(item)):
            yield
    return {"items": items, "next": following}


def _of_asker(item: Item, request: ControlRequest) -> bool:
    """Tell whether the item is the requesting connection, its reply queue or its channel."""
    asker, subject = request.connection, item.subject
    if isinstance(subject, Session):
        return asker is not None and subject.connection_number == asker.number
    if isinstance(subject, Queue | Consumer):
        subject = subject.owner if isinstance(subject, Queue) else subject.queue.owner
    return asker is not None and subject is asker


# Status


def answer_status(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer status {}: the broker, and up to `STATUS_MOST` connections and queues, without the reply queue."""
    broker, vhost = node.broker, request.vhost
    hidden = _own_queue(request)
    connections: list[Row] = []
    for connection in list(islice(node.connections.values(), STATUS_MOST)):
        connections.append(connection_row(connection))
        if broker.work.spend(VIEW_WORK):
            yield
    shown = [queue for queue in islice(vhost.queues.values(), STATUS_MOST + 1) if queue is not hidden]
    queues: list[Row] = []
    for queue in shown[:STATUS_MOST]:
        if not queue.deleted:
            queues.append(queue_row(queue, broker.now))
        if broker.work.spend(VIEW_WORK):
            yield
    lingering = broker.closed_session_budget
    return {
        "version": node.version,
        "turns": node.turns_view(),
        "slowed": [wait.connection.name() for wait in node.slowed().slowed()[:SLOWED_SHOWN]],
        "connections": connections,
        "connection_count": len(node.connections),
        "vhost": vhost.name,
        "disk": None if broker.journal is None else _disk(broker.gates.disk, vhost.name, broker.now),
        "certificates": node.certificates.view(),
        "queues": queues,
        "queue_count": len(vhost.queues) - (0 if hidden is None else 1),
        "exchanges": len(vhost.exchanges),
        "bindings": int(vhost.bindings.count),
        "unroutable": int(broker.unroutable),
        "lingering": {**amounts(lingering.messages, lingering.bytes), "sessions": len(lingering.producers)},
    }


def _own_queue(request: ControlRequest) -> Queue | None:
    """Return the reply queue of the requesting connection, if it is exclusive."""
    queue = request.vhost.queues.get(request.reply_to or "")
    own = queue is not None and request.connection is not None and queue.owner is request.connection
    return queue if own else None


def _disk(disk: Disk, vhost: str, now: float) -> Row:
    """Return the state of the disk: its gates, the stored data of a virtual host, and data not yet written."""
    stock = disk.vhosts.get(vhost)
    return {
        "used": int(disk.used),
        "free": or_none(disk.free),
        "stored": 0 if stock is None else int(stock.bytes()),
        "unwritten": 0 if disk.backlog is None else int(disk.backlog.unwritten()),
        "gates": [gate_row(gate, now) for gate in disk.gates()],
    }


# Top


class Sums:
    """Sums over the queues that a request may see."""

    def __init__(self) -> None:
        self.depths = Depths()
        self.publish_rate: float = 0.0
        self.deliver_rate: float = 0.0

    def add(self, queue: Queue) -> None:
        """Add a queue."""
        self.depths.add(queue)
        self.publish_rate += publish_rate(queue)
        self.deliver_rate += deliver_rate(queue)

    def row(self) -> Row:
        """Return the sums as they are answered."""
        depths = self.depths
        return {
            "queues": int(depths.queues),
            "gates_closed": int(depths.closed),
            "messages": int(depths.messages),
            "messages_unacknowledged": int(depths.unacknowledged),
            "bytes": int(depths.bytes),
            "rates": {"publish": round(self.publish_rate, 3), "deliver_get": round(self.deliver_rate, 3)},
        }


def _by_fill(queue: Queue, now: float) -> float:
    return (fill_percent(queue) or 0.0) if queue.depth_messages() else 0.0


ORDERS: Final[dict[str, Callable[[Queue, float], float]]] = {
    "blocked": lambda queue, now: -1.0 if queue.gate.stats.since is None else now - queue.gate.stats.since,
    "fill": _by_fill,
    "messages": lambda queue, now: 0.0,
    "bytes": lambda queue, now: float(queue.measure().bytes),
    "rate": lambda queue, now: publish_rate(queue) + deliver_rate(queue),
}
"""Orders of queues, each descending, and of equals by messages; `blocked` is by the time that a gate is closed, then by
fill. `rate` is by messages in and out a second.
"""


def answer_top(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer top {order, count, prefix, queue, everywhere, history}: the first queues in an order, and sums over all.

    `prefix` takes only queues whose name begins so; `queue` only the one of that name. `everywhere` takes all virtual
    hosts that the user may see. `history` adds as many of the newest samples, 60 at most, to the first 100 queues.
    Queues for answers to control requests are left out. Raises NotFound (404) for a queue that there is not,
    PreconditionFailed (406) for an unknown order.
    """
    order = str(request.fields.get("order") or "blocked")
    if order not in ORDERS:
        raise PreconditionFailed(f"'order' must be one of {', '.join(ORDERS)}, not '{order}'")
    name = request.fields.get("queue")
    sums = Sums()
    if isinstance(name, str):
        queue = request.vhost.queue(name, request.connection)
        sums.add(queue)
        found = [queue]
    else:
        count = max(min(request.amount("count", COUNT_DEFAULT), COUNT_MOST), 1)
        found = yield from _first(node, request, order, count, sums)
    samples = request.amount("history", 0)
    items: list[Row] = []
    for queue in found:
        if not queue.deleted:
            items.append(QUEUE.row(queue, reading(node)))
            if samples > 0 and len(items) <= HISTORIES_MOST:
                items[-1]["history"] = history.recent(queue, node, samples)
                node.broker.work.done += SHOWN_WORK
        if node.broker.work.spend(SHOWN_WORK):
            yield
    return {
        "version": node.version,
        "vhost": request.vhost.name,
        "connections": len(node.connections),
        "turns": node.turns_view(),
        "order": order,
        "sums": sums.row(),
        "items": items,
    }


def _first(node: Node, request: ControlRequest, order: str, count: int, sums: Sums) -> Steps[list[Queue]]:
    """Return the first queues in an order, and add all to the sums."""
    work = node.broker.work
    now = node.broker.now
    prefix = request.fields.get("prefix")
    begins = prefix if isinstance(prefix, str) else ""
    highest: Highest[Queue] = Highest(count)
    everywhere = request.fields.get("everywhere") is True
    for vhost in lists.seen_vhosts(node, request.access.rules) if everywhere else [request.vhost]:
        for part in vhost.roll.parts(RANKED_AT_ONCE):
            for queue in part:
                if queue.deleted or answers_control(queue.name) or not queue.name.startswith(begins):
                    continue
                sums.add(queue)
                fill = _by_fill(queue, now) if order == "blocked" else 0.0
                highest.offer((ORDERS[order](queue, now), fill, float(queue.depth_messages())), queue)
            if work.spend(RANKED_AT_ONCE * RANKED_WORK):
                yield
    return highest.ranked()
