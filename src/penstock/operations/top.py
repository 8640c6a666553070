"""`top`: the first queues in an order, and sums over all, for displays that ask again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from typing_extensions import override

from penstock.access.permission import MONITORING
from penstock.connections.control_request import ControlRequest
from penstock.content.properties import answers_control
from penstock.core.queue.queue import Queue
from penstock.describe.list_kinds import seen_vhosts
from penstock.describe.lists import Search, first_steps
from penstock.describe.message_stats import Depths, deliver_rate, publish_rate
from penstock.describe.queue import QUEUE, fill_percent
from penstock.describe.road import Road, road_of
from penstock.describe.stats_sampler import recent
from penstock.describe.table import Reading, Row, reading
from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.management.node import Node
from penstock.management.operation import ALL, VHOST, Answer, Choice, Operation, looking
from penstock.operations import joins
from penstock.texts import worded

COUNT_MOST: Final = 500
"""Most queues in an answer of `top`."""
COUNT_DEFAULT: Final = 100
HISTORIES_MOST: Final = 100
"""Most queues with a history in an answer, so that it stays small: the first."""
SHOWN_WORK: Final = 25
"""Units of work per queue that is shown; its history costs as much again, and one that is only ranked costs 1."""


class Sums:
    """Sums over the queues that a request may see."""

    def __init__(self) -> None:
        self.depths = Depths()
        self.closed: int = 0
        """Queues with a closed gate on their road."""
        self.publish_rate: float = 0.0
        self.deliver_rate: float = 0.0

    def add(self, queue: Queue, road: Road) -> None:
        """Add a queue."""
        self.depths.add(queue)
        self.closed += 1 if road.closed else 0
        self.publish_rate += publish_rate(queue)
        self.deliver_rate += deliver_rate(queue)

    def row(self) -> Row:
        """Return the sums as they are answered."""
        depths = self.depths
        return {
            "queues": int(depths.queues),
            "gates_closed": self.closed,
            "messages": int(depths.messages),
            "messages_unacknowledged": int(depths.unacknowledged),
            "bytes": int(depths.bytes),
            "rates": {"publish": round(self.publish_rate, 3), "deliver_get": round(self.deliver_rate, 3)},
        }


def _by_fill(queue: Queue) -> float:
    return (fill_percent(queue) or 0.0) if queue.depth_messages() else 0.0


def _by_closed(queue: Queue, road: Road, now: float) -> float:
    since = road.since() if road.closed else None
    return -1.0 if since is None else now - since


ORDERS: Final[dict[str, Callable[[Queue, Road, float], float]]] = {
    "blocked": _by_closed,
    "fill": lambda queue, road, now: _by_fill(queue),
    "messages": lambda queue, road, now: 0.0,
    "bytes": lambda queue, road, now: float(queue.measure().bytes),
    "rate": lambda queue, road, now: publish_rate(queue) + deliver_rate(queue),
}
"""Orders of queues, each descending, and of equals by messages; `blocked` is by the time that a gate of the road is
closed, then by fill. `rate` is by messages in and out a second.
"""


class TopOrder(Search):
    """Queues whose name begins with a text, in one of the orders, without queues for answers to control requests."""

    def __init__(self, order: str, count: int, prefix: str, sums: Sums) -> None:
        super().__init__(count, True)
        self._value = ORDERS[order]
        self._filled = order == "blocked"
        self._prefix = prefix
        self._sums = sums

    @override
    def examine(self, queues: list[Queue], at: Reading) -> None:
        broker, prefix, value, now = at.broker, self._prefix, self._value, at.now
        for queue in queues:
            if queue.deleted or answers_control(queue.name) or not queue.name.startswith(prefix):
                continue
            road = road_of(queue, broker)
            self._sums.add(queue, road)
            fill = _by_fill(queue) if self._filled else 0.0
            self.best.offer((value(queue, road, now), fill, float(queue.depth_messages())), queue)


def answer_top(node: Node, request: ControlRequest) -> Steps[Answer]:
    """Answer top {order, count, prefix, queue, everywhere, history}: the first queues in an order, and sums over all.

    `prefix` takes only queues whose name begins so; `queue` only the one of that name. `everywhere` takes all virtual
    hosts that the user may see. `history` adds as many of the newest samples, 60 at most, to the first 100 queues.
    Queues for answers to control requests are left out. Raises NotFound (404) for a queue that there is not,
    PreconditionFailed (406) for an unknown order.
    """
    order = request.fields.get("order") or "blocked"
    if not isinstance(order, str) or order not in ORDERS:
        raise PreconditionFailed(f"'order' must be one of {', '.join(ORDERS)}, not {worded(order)}")
    name = request.fields.get("queue")
    sums = Sums()
    if isinstance(name, str):
        queue = request.vhost.queue(name, request.connection)
        sums.add(queue, road_of(queue, node.broker))
        queues = [queue]
    else:
        count = max(min(request.amount("count", COUNT_DEFAULT), COUNT_MOST), 1)
        prefix = request.fields.get("prefix")
        search = TopOrder(order, count, prefix if isinstance(prefix, str) else "", sums)
        everywhere = request.fields.get("everywhere") is True
        hosts = seen_vhosts(node, request.access.rules) if everywhere else [request.vhost]
        found = yield from first_steps(node, hosts, search)
        queues = [item.subject for item in found if isinstance(item.subject, Queue)]
    samples = request.amount("history", 0)
    items: list[Row] = []
    for queue in queues:
        if not queue.deleted:
            items.append(QUEUE.row(queue, reading(node)))
            if samples > 0 and len(items) <= HISTORIES_MOST:
                items[-1]["history"] = recent(queue, node.stats, samples)
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


BY_QUEUE: Final[Choice] = Choice(
    (VHOST, ALL),
    lambda fields: ALL if fields.get("everywhere") is True and not isinstance(fields.get("queue"), str) else VHOST,
)
OPERATIONS: Final[tuple[Operation, ...]] = (
    looking(
        "top",
        answer_top,
        ("order", "count", "prefix", "queue", "everywhere", "history"),
        tag=MONITORING,
        asks=BY_QUEUE,
        join=joins.top_join(COUNT_MOST, COUNT_DEFAULT, HISTORIES_MOST),
    ),
)
