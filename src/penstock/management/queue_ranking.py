"""Control operation `top`: the queues that need attention most, with sums over all, for a display that is refreshed.

Queues are ranked in steps and only the first are made plain data, so that a refresh each second costs little with
thousands of queues.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from penstock.access.rules import Rules
from penstock.access.tags import ADMINISTRATOR
from penstock.content.names import answers_control
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.management import history, rabbitmq_json, views
from penstock.management.control_request import ControlRequest
from penstock.management.message_stats import DELIVERIES, QUEUE_KEYS

if TYPE_CHECKING:
    from penstock.management.node import Node

ORDERS: Final = ("blocked", "fill", "messages", "bytes", "rate")
"""Orders of queues, each descending; `blocked` is by the time that a gate is closed, then by fill and messages. `rate`
is by messages in and out a second.
"""
COUNT_MOST: Final = 500
"""Most queues in an answer."""
COUNT_DEFAULT: Final = 100
HISTORIES_MOST: Final = 100
"""Most queues with a history in an answer, so that it stays small: the first."""
SHOWN_WORK: Final = 25
"""Units of work per queue that is shown; its history costs as much again, and one that is only ranked costs 1."""
RANKED_WORK: Final = 1
RANKED_AT_ONCE: Final = 100
"""Queues ranked per step."""

PUBLISHED: Final[int] = QUEUE_KEYS.index("publish")
DELIVERED: Final[tuple[int, ...]] = tuple([QUEUE_KEYS.index(key) for key in DELIVERIES])
"""Columns of a queue's counts."""

Rank = tuple[float, float, float]
Ranked = tuple[Rank, int, Queue]


class Sums:
    """Sums over the queues that a request may see."""

    def __init__(self) -> None:
        self.queues: int = 0
        self.closed: int = 0
        """Queues whose gate is closed."""
        self.messages: int = 0
        self.unacknowledged: int = 0
        self.bytes: int = 0
        self.publish_rate: float = 0.0
        self.deliver_rate: float = 0.0

    def add(self, queue: Queue) -> None:
        """Add a queue."""
        self.queues += 1
        self.messages += int(queue.depth_messages())
        self.unacknowledged += int(queue.unacked_messages)
        self.bytes += int(queue.depth_bytes())
        self.publish_rate += _publish_rate(queue)
        self.deliver_rate += _deliver_rate(queue)
        if not queue.gate.open:
            self.closed += 1

    def as_dict(self) -> dict[str, object]:
        """Return the sums as plain data."""
        return {
            "queues": self.queues,
            "gates_closed": self.closed,
            "messages": self.messages,
            "messages_unacknowledged": self.unacknowledged,
            "bytes": self.bytes,
            "rates": {"publish": round(self.publish_rate, 3), "deliver_get": round(self.deliver_rate, 3)},
        }


def answer_top(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer top {order, count, prefix, queue, everywhere, history}: the first queues in an order, and sums over all.

    `prefix` takes only queues whose name begins so; `queue` only the one of that name. `everywhere` takes all virtual
    hosts that the user may see. `history` adds as many of the newest samples, 60 at most, to the first 100 queues.
    Queues for answers to control requests are left out. Raises NotFound (404) for a queue that there is not,
    PreconditionFailed (406) for an unknown order.
    """
    order = str(request.fields.get("order") or ORDERS[0])
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
    items: list[rabbitmq_json.Shape] = []
    for queue in found:
        if not queue.deleted:
            items.append(rabbitmq_json.queue_of(queue, node))
            if samples > 0 and len(items) <= HISTORIES_MOST:
                items[-1]["history"] = history.recent(queue, node, samples)
                node.broker.work.done += SHOWN_WORK
        node.broker.work.done += SHOWN_WORK
        if node.broker.work.used_up():
            yield
    return {
        "version": node.control.version,
        "vhost": request.vhost.name,
        "connections": len(node.connections),
        "turns": node.turns_view(),
        "order": order,
        "sums": sums.as_dict(),
        "items": items,
    }


def _first(node: Node, request: ControlRequest, order: str, count: int, sums: Sums) -> Steps[list[Queue]]:
    """Return the first queues in an order, and add all to the sums; a heap keeps the first ones so far."""
    work = node.broker.work
    now = node.broker.now
    prefix = request.fields.get("prefix")
    begins = prefix if isinstance(prefix, str) else ""
    heap: list[Ranked] = []
    number = 0
    for vhost in _vhosts(node, request, request.access.rules):
        for part in vhost.roll.parts(RANKED_AT_ONCE):
            for queue in part:
                if queue.deleted or answers_control(queue.name) or not queue.name.startswith(begins):
                    continue
                sums.add(queue)
                number -= 1  # Of equal ones the older is first.
                rank = _rank(queue, order, now)
                if len(heap) < count:
                    heapq.heappush(heap, (rank, number, queue))
                elif rank > heap[0][0]:
                    heapq.heapreplace(heap, (rank, number, queue))
            work.done += RANKED_AT_ONCE * RANKED_WORK
            if work.used_up():
                yield
    heap.sort(key=_place, reverse=True)
    return [queue for _, _, queue in heap]


def _vhosts(node: Node, request: ControlRequest, rules: Rules) -> list[VirtualHost]:
    """Return the virtual hosts of a request."""
    if request.fields.get("everywhere") is not True:
        return [request.vhost]
    every = rules.has_tag(ADMINISTRATOR)
    return [each for each in node.broker.vhosts.values() if every or rules.enters(each.name)]


def _rank(queue: Queue, order: str, now: float) -> Rank:
    """Return the place of a queue in an order; the highest is first."""
    messages = float(queue.depth_messages())
    if order == "messages":
        return messages, 0.0, 0.0
    if order == "bytes":
        return float(queue.measure().bytes), messages, 0.0
    if order == "rate":
        return _publish_rate(queue) + _deliver_rate(queue), messages, 0.0
    fill = (views.fill_percent(queue) or 0.0) if messages else 0.0
    if order == "fill":
        return fill, messages, 0.0
    since = queue.gate.stats.since
    return -1.0 if since is None else now - since, fill, messages


def _publish_rate(queue: Queue) -> float:
    """Return the messages that come into a queue a second."""
    series = queue.counters.series
    return 0.0 if series is None else series.rate(PUBLISHED)


def _deliver_rate(queue: Queue) -> float:
    """Return the messages that a queue hands out a second."""
    series = queue.counters.series
    if series is None:
        return 0.0
    found = 0.0
    for column in DELIVERED:
        found += series.rate(column)
    return found


def _place(entry: Ranked) -> tuple[Rank, int]:
    return entry[0], entry[1]
