"""The road of a publish: its queues' gates in order, and what stops it there."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.overflow import HOLD
from penstock.core.queue import Queue
from penstock.core.route import Route
from penstock.errors import ContentTooLarge
from penstock.flow.deadlines import NEVER
from penstock.flow.gate import Gate


def obstacle(queues: list[Queue], charge: i64) -> Gate | None:
    """Return the first gate that stops a publish whose turn it is: closed, or without room for it."""
    for queue in queues:
        if not queue.gate.open or must_hold(queue, charge):
            return queue.gate
    return None


def newcomers_obstacle(queues: list[Queue], charge: i64, others_go: bool) -> Gate | None:
    """Return where a new publish must stand in line, or None if it may go in; `others_go`: some still have a turn.

    A closed gate alone does not stop it: between stop and capacity messages are accepted, and their confirmations
    withheld. But nobody goes past those who wait, at this gate or for their turn.
    """
    for queue in queues:
        if queue.gate.waiters or others_go or must_hold(queue, charge):
            return queue.gate
    return None


def must_hold(queue: Queue, charge: i64) -> bool:
    """Tell whether a queue has no room for a message and wants it to wait. One that was deleted stops nobody."""
    return not queue.deleted and not queue.fits(charge) and queue.overflow.verdict(queue, charge) == HOLD


def never_fits(queues: list[Queue], charge: i64) -> Queue | None:
    """Return a queue that would have a message wait for room that it can never have, or None."""
    for queue in queues:
        if not queue.can_ever_fit(charge) and must_hold(queue, charge):
            return queue
    return None


def patience_s(queues: list[Queue]) -> float:
    """Return how long a publish may be held: the shortest deadline of its queues, in seconds; infinity for ever."""
    shortest = NEVER
    for queue in queues:
        if queue.settings.hold_deadline_s < shortest:
            shortest = queue.settings.hold_deadline_s
    return shortest


# In words


def never(queue: Queue, charge: i64) -> ContentTooLarge:
    """Return the error for a message that can never fit."""
    return ContentTooLarge(
        f"a message of {int(charge):,} bytes (properties, body and overhead) can never fit into queue "
        f"'{queue.name}' with its capacity of {queue.thresholds.capacity.words()}"
    )


def place(route: Route) -> str:
    """Return where a publish was addressed to."""
    return f"exchange '{route.address.exchange}' with routing key '{route.address.routing_key}'"


def why(queues: list[Queue]) -> str:
    """Return what stops a publish, in one clause."""
    for queue in queues:
        if not queue.gate.open or queue.gate.waiters or not queue.fits(1):
            return (
                f"queue '{queue.name}' holds {int(queue.messages):,} messages, {int(queue.bytes):,} bytes, "
                f"of a capacity of {queue.thresholds.capacity.words()}"
            )
    return "others wait before it"
