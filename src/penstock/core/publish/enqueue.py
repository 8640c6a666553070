"""Enqueueing of an admitted message into all its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.gates.address_depth import share_of
from penstock.core.publish import admission
from penstock.core.publish.admission import NOT_PREPAID, RATES_PREPAID
from penstock.core.queue.pinned_room import PinnedRoom
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.core.publish.context import PublishContext

QUEUE_WORK: Final = 1
"""Units of work of each queue of a message."""


def enqueue_all(
    broker: PublishContext,
    own: list[Gate],
    route: Route,
    queues: list[Queue],
    content: bytes,
    charge: i64,
    closed: list[Gate],
    decided: bool = False,
    prepaid: int = NOT_PREPAID,
    room: PinnedRoom | None = None,
) -> Queue | None:
    """Put a message into its queues; adds the gates that closed behind it to `closed`.

    `own` are its producer's gates; `decided`: all queues accept it, as the caller has checked; `prepaid`: see
    `HeldPublish`; `room` is that of its query, None for most. Returns a queue that is deleted or whose overflow policy
    refused it; None if all accepted.
    """
    now = broker.now
    broker.work.done += QUEUE_WORK * len(queues)
    refused: Queue | None = None
    taken: i64 = 0
    share = share_of(route.gates, charge)
    for gate in own:
        gate.passed(charge, now, prepaid != NOT_PREPAID)
    for gate in route.gates:
        gate.passed(charge, now, prepaid == RATES_PREPAID)
    for queue in queues:
        if not decided and not queue.takes(content, charge, now):
            queue.count_rejected(route.envelope, content, charge, now)
            refused = queue
            continue
        if share is not None:
            share.enter(now)
        queue.enqueue(route.envelope, content, charge, now, share)
        taken += 1
        if route.envelope.ttl_s != NEVER:
            broker.watch_lifetime(queue)
        broker.schedule_delivery(queue)
        admission.record_blocked(closed, route, queue, charge, room)
    if queues:  # Without any it is counted as unroutable.
        route.counters.published += 1
        route.counters.more_routed += taken - 1
    return refused
