"""Control operation `status`: the broker, its connections, and queues of one virtual host."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from penstock.core.queue.queue import Queue
from penstock.flow.work import Steps
from penstock.management import views
from penstock.management.control_request import ControlRequest
from penstock.management.message_stats import queue_rates

if TYPE_CHECKING:
    from penstock.management.node import Node

STATUS_MOST: Final = 500
"""Most queues, and most connections, in a status; `list` gives all, page by page."""
SLOWED_SHOWN: Final = 20
"""Most slowed connections that `status` names; `why` explains each."""
VIEW_WORK: Final = 10
"""Units of work per shown queue or connection."""


def answer_status(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer status {}: the broker, and up to `STATUS_MOST` connections and queues, without the reply queue."""
    broker, vhost = node.broker, request.vhost
    hidden = _own_queue(request)
    connections: list[dict[str, object]] = []
    for connection in list(itertools.islice(node.connections.values(), STATUS_MOST)):
        connections.append(views.connection_summary(connection))
        broker.work.done += VIEW_WORK
        if broker.work.used_up():
            yield
    shown = [queue for queue in itertools.islice(vhost.queues.values(), STATUS_MOST + 1) if queue is not hidden]
    queues: list[dict[str, object]] = []
    for queue in shown[:STATUS_MOST]:
        if not queue.deleted:
            queues.append({**views.queue_view(queue, broker.now), "rates": queue_rates(queue)})
        broker.work.done += VIEW_WORK
        if broker.work.used_up():
            yield
    return {
        "version": node.control.version,
        "turns": node.turns_view(),
        "slowed": [wait.connection.name() for wait in node.slowed().slowed()[:SLOWED_SHOWN]],
        "connections": connections,
        "connection_count": len(node.connections),
        "vhost": vhost.name,
        "disk": None if broker.journal is None else views.disk_view(broker.gates.disk, vhost.name, broker.now),
        "certificates": node.certificates.view(),
        "queues": queues,
        "queue_count": len(vhost.queues) - (0 if hidden is None else 1),
        "exchanges": len(vhost.exchanges),
        "bindings": int(vhost.bindings.count),
        "unroutable": int(broker.unroutable),
        "lingering": {
            "messages": int(broker.closed_session_budget.messages),
            "bytes": int(broker.closed_session_budget.bytes),
            "sessions": len(broker.closed_session_budget.producers),
        },
    }


def _own_queue(request: ControlRequest) -> Queue | None:
    """Return the reply queue of the requesting connection, if it is exclusive."""
    queue = request.vhost.queues.get(request.reply_to or "")
    own = queue is not None and request.connection is not None and queue.owner is request.connection
    return queue if own else None
