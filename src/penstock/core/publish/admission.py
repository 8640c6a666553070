"""Admission of a publish: the gates on its road, in order, and its way into all its queues.

The road begins with the gates of the producer (user, connection, rate) and of the address. Then follow, for each queue,
its own gate, the gates of its virtual host and of the node, and the disk gates if the queue stores the message. Each
gate is one condition; the message must pass all of them.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.gates.address_depth import share_of
from penstock.core.message import DelayedEnvelope
from penstock.core.queue.context import QueueContext
from penstock.core.queue.cursor_state import PinnedRoom
from penstock.core.queue.delays import prepare
from penstock.core.queue.overflow.policy import HOLD
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.errors import ContentTooLarge, ResourceError
from penstock.flow.gate import NO_GATES, Gate, Waiter
from penstock.flow.level import UNLIMITED, Level
from penstock.flow.timers import NEVER
from penstock.flow.turns import Turns

NOT_PREPAID: Final = 0
OWN_GATES_PREPAID: Final = 1
"""The gates of the producer counted the publish when its credit was granted."""
RATES_PREPAID: Final = 2
"""The rates of the address counted the publish as well."""


def disk_gates(route: Route, queue: Queue, charge: i64) -> list[Gate]:
    """Return the disk gates of a message on this route into a queue; none if the message is not stored.

    A transient message must pass the disk gates if it would be paged.
    """
    storage, pages = queue.storage, queue.pager
    if queue.deleted:
        return NO_GATES
    if storage is not None and route.envelope.persistent:
        return storage.vhost_usage.gates
    return NO_GATES if pages is None or not pages.pages_next(charge) else pages.storage.vhost_usage.gates


def is_stored(route: Route) -> bool:
    """Return whether a message on this route is stored by one of its queues."""
    if route.envelope.persistent:
        for queue in route.queues:
            if queue.storage is not None:
                return True
    return False


def passes_disk(route: Route, charge: i64) -> bool:
    """Return whether no disk gate stops a message."""
    for queue in route.queues:
        for gate in disk_gates(route, queue, charge):
            if not gate.open:
                return False
    return True


def credit_gates(queue: Queue, charge: i64, stored: bool) -> list[Gate]:
    """Return the gates of a queue that stop credit for messages of this charge, `stored` or not."""
    storage, pages = queue.storage, queue.pager
    if queue.deleted:
        return NO_GATES
    if storage is not None and stored:
        return [*queue.gates, *storage.vhost_usage.gates]
    if pages is not None and pages.pages_next(charge):
        return [*queue.gates, *pages.storage.vhost_usage.gates]
    return queue.gates


def gates_of(queue: Queue) -> list[Gate]:
    """Return all gates of a queue, including the disk gates, which apply to some messages only."""
    storage = queue.storage
    if storage is None and queue.pager is not None:
        storage = queue.pager.storage
    return queue.gates if storage is None or queue.deleted else [*queue.gates, *storage.vhost_usage.gates]


def stops_granted(gate: Gate, now: float) -> bool:
    """Return whether a message must wait at a gate although the gate has counted its credit."""
    return gate.owner is not None and not gate.owner.admits_granted(now)


def any_stops_granted(gates: list[Gate], now: float) -> bool:
    """Return whether a message must wait at any of these gates although they have counted its credit."""
    for gate in gates:
        if stops_granted(gate, now):
            return True
    return False


def credit_limit(gates: list[Gate], charge: i64) -> i64:
    """Return the most messages (each of this charge) that these gates let a sender have as credit."""
    most: i64 = UNLIMITED
    for gate in gates:
        if gate.owner is not None:
            most = min(most, gate.owner.credit_limit(charge))
    return most


def first_closed_gate(
    own: list[Gate],
    route: Route,
    queues: list[Queue],
    charge: i64,
    now: float,
    finishing: Gate | None,
    prepaid: int = NOT_PREPAID,
    room: PinnedRoom | None = None,
) -> Gate | None:
    """Return the first gate that stops a publish in its turn: closed, or without room for it.

    `own` are the producer's gates, which do not stop a request to the broker; `queues` are the targets of the message.
    `finishing` is the closed gate whose round is being finished, if any. `prepaid`: see `HeldPublish`. `room`: the
    query's pinned room; None if no query publishes.
    """
    if queue_at_once(own, route, queues, charge) is not None:
        return None
    return _obstacle(own, route, queues, charge, now, False, False, finishing, prepaid, room)


def queue_at_once(own: list[Gate], route: Route, queues: list[Queue], charge: i64) -> Queue | None:
    """Return the only queue of a message that has no other gates and crosses no limit of the fast path; else None."""
    queue = route.single_queue_for()
    if own or queue is None or len(queues) != 1 or queues[0] is not queue:
        return None
    return queue if queue.takes_at_once(charge) else None


def gate_for_new_publish(
    own: list[Gate],
    route: Route,
    queues: list[Queue],
    charge: i64,
    now: float,
    others_have_turns: bool,
    prepaid: int = NOT_PREPAID,
    room: PinnedRoom | None = None,
) -> Gate | None:
    """Return the gate where a new publish must wait, or None if the publish passes.

    `others_have_turns`: waiters still have turns now. A closed gate alone does not stop a publish: between stop and
    capacity messages are accepted, and their confirms withheld. But a new publish does not overtake waiters at this
    gate, or waiters that have a turn. `prepaid`: see `HeldPublish`. `room`: the query's pinned room; None if no query
    publishes. The publish skips the line of gates that the room covers.
    """
    return _obstacle(own, route, queues, charge, now, True, others_have_turns, None, prepaid, room)


def _obstacle(
    own: list[Gate],
    route: Route,
    queues: list[Queue],
    charge: i64,
    now: float,
    is_new: bool,
    others_have_turns: bool,
    finishing: Gate | None,
    prepaid: int,
    room: PinnedRoom | None,
) -> Gate | None:
    """Return the first gate on the road of a publish that stops it, for a new publish or in its turn."""
    for gate in own:
        if prepaid != NOT_PREPAID:
            if stops_granted(gate, now) and not route.control:
                return gate
        elif not route.control and not _passes(gate, charge, 1, now, is_new, finishing):
            return gate
    for gate in route.gates:
        if prepaid == RATES_PREPAID and gate.frequent:
            if stops_granted(gate, now):
                return gate
        elif not _passes(gate, charge, 1, now, is_new, finishing) and not is_excused(room, gate, 1, charge):
            return gate
    copies = len(queues)
    for queue in queues:
        if others_have_turns:
            return queue.gate
        size = queue.bytes + charge
        for gate in queue.gates:
            if (
                size > gate.guaranteed_bytes
                and (is_new or not queue.deleted)
                and not _passes(gate, charge, copies, now, is_new, finishing)
                and not is_excused(room, gate, copies, charge * copies)
            ):
                return gate
        for gate in disk_gates(route, queue, charge):
            if not gate.open or (is_new and gate.has_line()):
                return gate
    return None


def _passes(gate: Gate, charge: i64, copies: i64, now: float, is_new: bool, finishing: Gate | None) -> bool:
    """Return whether a publish may pass a gate; a new publish overtakes no waiter there."""
    if is_new:
        return not gate.has_line() and gate.admits(charge, copies, now)
    return gate.lets_pass(charge, copies, now, finishing)


def gate_of_returning(turns: Turns, waiter: Waiter, route: Route, charge: i64, now: float) -> Gate | None:
    """Return the open gate where a publish waits for others that return soon (`Turns.pass_at_once`), or None."""
    for queue in route.queues:
        gate = queue.gate
        if gate.open and gate.returning and not turns.pass_at_once(waiter, gate, charge, now):
            return gate
    return None


def is_excused(room: PinnedRoom | None, gate: Gate, messages: i64, bytes: i64) -> bool:
    """Return whether a publish need not wait at a gate, because its query pins messages there."""
    return room is not None and room.excuses(gate, messages, bytes)


def record_blocked(
    gates: list[Gate], route: Route, queue: Queue, charge: i64 = 0, room: PinnedRoom | None = None
) -> None:
    """Add to `gates` the closed gates that a message has just passed into a queue, except gates that `room` covers.

    The message's use beyond limits is counted in `room`.
    """
    excused = False
    for gate in route.gates:
        if not gate.open and not gate.frequent and gate not in gates:
            if is_excused(room, gate, 0, 0):
                excused = True
            else:
                gates.append(gate)
    for gate in queue.gates:
        if gate.open or queue.bytes <= gate.guaranteed_bytes:
            continue
        if gate is queue.gate or gate not in gates:  # A message enters each queue once; queues share the other gates.
            if is_excused(room, gate, 0, 0):
                excused = True
            else:
                gates.append(gate)
    if excused and room is not None:
        room.take(1, charge)


def too_large_error(route: Route, queues: list[Queue], charge: i64, now: float) -> ContentTooLarge | None:
    """Return the error for a publish that would wait for room that will never exist, or None."""
    for gate in route.gates:
        measured = None if gate.could_ever_take(1, charge) else gate.measure()
        if measured is not None:
            return never_fits_error(f"{gate.kind} '{gate.name}'", charge, measured.thresholds.capacity)
    copies = len(queues)
    for queue in queues:
        if not queue.can_ever_fit(charge) and must_wait(queue, charge):
            return never_fits_error(f"queue '{queue.name}'", charge, queue.thresholds.capacity)
        for pool in queue.membership.pools:
            if pool.gate in queue.gates and not pool.could_ever_take(copies, charge * copies):
                return never_fits_error(f"{pool.gate.kind} '{pool.gate.name}'", charge, pool.thresholds.capacity)
    return None


def must_wait(queue: Queue, charge: i64) -> bool:
    """Return whether a queue's policy makes a message wait for room, even if there will never be any."""
    return not queue.deleted and not queue.fits(charge) and queue.verdict(1, charge, charge) == HOLD


def hold_deadline_s(queues: list[Queue]) -> float:
    """Return the longest hold of a publish: the shortest deadline of its queues, in seconds; infinity for none."""
    shortest = NEVER
    for queue in queues:
        if queue.settings.hold_deadline_s < shortest:
            shortest = queue.settings.hold_deadline_s
    return shortest


# Descriptions


def never_fits_error(where: str, charge: i64, capacity: Level) -> ContentTooLarge:
    """Return the error for a message that can never fit."""
    parts = "properties and body" if capacity.uncounted > 0 else "properties, body and overhead"
    return ContentTooLarge(
        f"a message of {int(capacity.counted(1, charge)):,} bytes ({parts}) can never fit into {where} "
        f"with its capacity of {capacity.describe()}"
    )


def describe_target(route: Route) -> str:
    """Return the target of a publish as text."""
    return f"exchange '{route.envelope.exchange}' with routing key '{route.envelope.routing_key}'"


def refusal_error(queue: Queue) -> ResourceError:
    """Return the error for a message that a queue's overflow policy refused."""
    return ResourceError(queue.describe_overflow())


def describe_deadline(queues: list[Queue]) -> str:
    """Return the hold deadline of a publish to these queues as text."""
    longest_s = hold_deadline_s(queues)
    return "its hold deadline" if longest_s == NEVER else f"its hold deadline of {longest_s:g} s"


def refusal_reason(queues: list[Queue], gate: Gate | None = None) -> str:
    """Return the reason why a publish is stopped, as a clause; `gate` is the gate that stops the publish, if it is
    known.
    """
    if gate is not None:
        return gate.describe_refusal()
    for queue in queues:
        if not queue.gate.open or queue.gate.has_line() or not queue.fits(1):
            return queue.describe_refusal()
    return "others wait before it"


QUEUE_WORK: Final = 1
"""Units of work of each queue of a message."""
LOOKED_AT_A_UNIT: Final = 16
"""Queues of a publish whose limits are checked with one unit of work, whether the publish passes or is held."""


def enqueue_all(
    broker: QueueContext,
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

    `own` are the producer's gates. `decided`: the caller has checked that all queues accept the message. `prepaid`: see
    `HeldPublish`. `room`: the query's pinned room; None if no query publishes. Returns a queue that is deleted or
    refused the message; None if all accepted.
    """
    now = broker.now
    broker.work.done += QUEUE_WORK * len(queues)
    refused: Queue | None = None
    taken: i64 = 0
    share = share_of(route.gates, charge)
    is_delayed = isinstance(route.envelope, DelayedEnvelope)
    if is_delayed:
        prepare(broker, queues)
    for gate in own:
        gate.passed(charge, now, prepaid != NOT_PREPAID)
    for gate in route.gates:
        gate.passed(charge, now, prepaid == RATES_PREPAID)
    for queue in queues:
        if (not decided and not queue.takes(content, charge, now)) or (
            is_delayed and not queue.takes_envelope(route.envelope, charge)
        ):
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
        record_blocked(closed, route, queue, charge, room)
    if queues:  # A message without queues is counted as unroutable.
        route.counters.published += 1
        route.counters.more_routed += taken - 1
    return refused
