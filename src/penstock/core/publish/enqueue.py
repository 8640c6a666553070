"""How a message goes into its queues, once it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.gates.address_depth import share_of
from penstock.core.publish import admission
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER

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
        admission.record_blocked(closed, route, queue)
    return refused
