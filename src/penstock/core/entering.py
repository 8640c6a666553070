"""How a message goes into its queues, once it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core import road
from penstock.core.queue import Queue
from penstock.core.route import Route
from penstock.core.share import share_of
from penstock.flow.deadlines import NEVER
from penstock.flow.gate import Gate

if TYPE_CHECKING:
    from penstock.core.broker import Broker

QUEUE_WORK: Final = 1
"""Units of work that each queue of a message costs."""


def enqueue_all(
    broker: Broker,
    own: list[Gate],
    route: Route,
    queues: list[Queue],
    content: bytes,
    charge: i64,
    closed: list[Gate],
    decided: bool = False,
) -> Queue | None:
    """Put a message into its queues; gates that are closed behind it are added to `closed`.

    `own` are its producer's gates; `decided`: all its queues take it, which the caller has found out. Returns a queue
    whose overflow policy refused it, or that is gone; None if all took it.
    """
    now = broker.now
    broker.work.done += QUEUE_WORK * len(queues)
    refused: Queue | None = None
    share = share_of(route.gates, charge)
    for gate in own:
        gate.passed(charge, now)
    for gate in route.gates:
        gate.passed(charge, now)
    for queue in queues:
        if not decided and not queue.takes(content, charge, now):
            queue.count_rejected(route.envelope, content, charge, now)
            refused = queue
            continue
        if share is not None:
            share.enter(now)
        queue.enqueue(route.envelope, content, charge, now, share)
        if route.envelope.ttl_s != NEVER:
            broker.watch_lifetime(queue)
        broker.schedule_delivery(queue)
        road.note_closed(closed, route, queue)
    return refused
