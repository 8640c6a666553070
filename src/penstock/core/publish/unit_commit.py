"""Commit of a unit of work: all its publishes and settlements pass in one turn, all or nothing.

Theory of operation. A commit changes each queue by its publishes, minus the messages that its own acknowledgements
remove there. It must pass the gates of the amounts that it increases (a queue's depth, a shared limit, an address), and
the gates without an amount (operator gates, rates), with the gates of each producer that published. An amount that it
does not increase does not stop it, however full. So a client that consumes from a full queue and publishes into the
same queue is not blocked, and commits of acknowledgements alone never wait. A commit waits as a publish does: at one
gate, with one ticket, charged with its sum. Its confirm is withheld by the closed gates that it has passed.

Publishes of a unit keep their order. Publishes of a producer other than the coordinator's do not wait for publishes
that their producer holds outside of the unit: an outbox waits at one gate only, and a commit must not wait for two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.message import DelayedEnvelope, StoredMessage
from penstock.core.publish import admission
from penstock.core.publish.admission import enqueue_all
from penstock.core.publish.commit_delta import (
    QUEUE_SIZE,
    TIMED_SIZE,
    GateDelta,
    QueueDelta,
    add_queue,
    adds,
    delta_of,
    gate_delta_at,
    shares_of,
)
from penstock.core.publish.held import HeldPublish, begin_withheld
from penstock.core.publish.outbox import Held
from penstock.core.publish.producer import Producer
from penstock.core.publish.waiting_publisher import ProducerState, count_arrival
from penstock.core.queue.overflow.policy import OverflowPolicy
from penstock.core.queue.queue import Queue, is_delayed_in
from penstock.core.routing.route import Route
from penstock.errors import BrokerError, ContentTooLarge, ResourceError
from penstock.flow.gate import NEVER_FITS, NO_GATES, ROLLED_BACK, Gate, Refusal
from penstock.flow.timers import CLOSE_ENOUGH_S, NEVER

if TYPE_CHECKING:
    from penstock.core.publish.unit_of_work import UnitOfWork

LOOKED_AT_A_UNIT: Final = 1
"""Queues of a commit whose gates are checked with one unit of work."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RowBatch:
    """Rows that a commit publishes in addition to its own publishes. They enter their queues after the commit has
    passed.

    Such rows are the results of a query, published as a whole (ranges/promotions.py).
    """

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Number of rows, and the sum of their charges."""

    def is_over(self) -> bool:
        """Return whether the batch has nothing left to publish: it was published, or is not wanted any more."""
        raise NotImplementedError

    def error(self) -> BrokerError | None:
        """Return why the batch cannot be published any more; None if it can."""
        raise NotImplementedError

    def bring(self, deltas: dict[int, QueueDelta]) -> None:
        """Count the rows in the changes of queues."""
        raise NotImplementedError

    def bring_to_addresses(self, at_gates: dict[int, GateDelta]) -> None:
        """Count the rows at the gates of addresses."""
        raise NotImplementedError

    def free_pools(self, pools: dict[int, GateDelta]) -> None:
        """Subtract the amounts that shared limits already count from the changes."""
        raise NotImplementedError

    def admit(self, commit: UnitCommit, at_gates: list[GateDelta]) -> None:
        """Take over from a commit that has passed these gates; the end is `UnitCommit.conclude`."""
        raise NotImplementedError


class ProducerDelta:
    """Publishes of one producer in a commit."""

    __slots__ = ("producer", "messages", "bytes")

    def __init__(self, producer: Producer, messages: i64 = 0, bytes: i64 = 0) -> None:
        self.producer = producer
        self.messages: i64 = messages
        self.bytes: i64 = bytes


class RouteDelta:
    """Publishes of a commit by one route."""

    __slots__ = ("route", "messages", "bytes")

    def __init__(self, route: Route) -> None:
        self.route = route
        self.messages: i64 = 0
        self.bytes: i64 = 0


class UnitSums:
    """Sums of the publishes of a unit of work, updated with each publish.

    So a commit sums up only queues and routes. Routes that depend on headers only matter where gates exist.
    """

    __slots__ = ("messages", "bytes", "queues", "routes", "producers")

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.queues: dict[int, QueueDelta] = {}
        """Sums by the identity of the queue."""
        self.routes: dict[int, RouteDelta] = {}
        """Sums by the identity of the route."""
        self.producers: dict[int, ProducerDelta] = {}
        """Sums by the identity of the producer, in the order of their first publish."""

    def size_of(self, route: Route) -> i64:
        """Return the size that one more publish by a route adds to the commit."""
        queues = route.queues
        copies: i64 = len(queues)
        size: i64 = copies * TIMED_SIZE if route.envelope.ttl_s != NEVER else copies
        for queue in queues:
            if id(queue) not in self.queues:
                size += QUEUE_SIZE
        return size if size > 0 else 1

    def add(self, held: HeldPublish) -> None:
        """Count a publish."""
        charge, route = held.charge, held.route
        self.messages += 1
        self.bytes += charge
        is_delayed = isinstance(route.envelope, DelayedEnvelope)
        for queue in held.queues:
            delta = delta_of(self.queues, queue)
            delta.bring(charge, held.content, route.envelope.persistent)
            if is_delayed and is_delayed_in(queue, route.envelope):
                delta.delay(charge)
        sender = self.producers.get(id(held.producer))
        if sender is None:
            sender = self.producers[id(held.producer)] = ProducerDelta(held.producer)
        sender.messages += 1
        sender.bytes += charge
        if route.gates or not route.by_headers:
            passage = self.routes.get(id(route))
            if passage is None:
                passage = self.routes[id(route)] = RouteDelta(route)
            passage.messages += 1
            passage.bytes += charge

    def is_current(self) -> bool:
        """Return whether every queue has the same length limit as when it was counted first."""
        for delta in self.queues.values():
            if delta.length is not delta.queue.length:
                return False
        return True


def sums_of(publishes: list[HeldPublish]) -> UnitSums:
    """Return the sums of publishes."""
    sums = UnitSums()
    for held in publishes:
        sums.add(held)
    return sums


class Road:
    """The changes by a commit at the gates on its road, at one moment."""

    __slots__ = ("at_gates", "at_disk", "never_fits")

    def __init__(self, at_gates: list[GateDelta], at_disk: list[GateDelta]) -> None:
        self.at_gates = at_gates
        """Gates that the commit increases, in the order of a publish's road; the disk gates follow."""
        self.at_disk = at_disk
        self.never_fits: ContentTooLarge | None = never_fits_error(at_gates)
        """The error of a commit that would wait for room that will never exist, or None."""

    def first_stopping(self, now: float, finishing: Gate | None) -> GateDelta | None:
        """Return the change at the first gate that stops the commit in its turn; None if it passes."""
        for at_gate in self.at_gates:
            if at_gate.stops(now, finishing):
                return at_gate
        for at_gate in self.at_disk:
            if at_gate.stops(now, finishing):
                return at_gate
        return None

    def first_for_new(self, now: float) -> GateDelta | None:
        """Return the change at the first gate where a new commit must wait; None if there is none."""
        for at_gate in self.at_gates:
            if at_gate.gate.has_line() or not at_gate.has_room(now):
                return at_gate
        for at_gate in self.at_disk:
            if at_gate.gate.has_line() or not at_gate.has_room(now):
                return at_gate
        return None

    def turn_gate(self) -> Gate | None:
        """Return the gate of the first queue that the commit increases."""
        for at_gate in self.at_gates:
            if at_gate.gate.kind == "queue":
                return at_gate.gate
        return None


def never_fits_error(at_gates: list[GateDelta]) -> ContentTooLarge | None:
    """Return the error for a commit that would wait at one of these gates for room that will never exist, or None."""
    for at_gate in at_gates:
        where = at_gate.never_fits()
        if where:
            return ContentTooLarge(
                f"a transaction that brings {int(at_gate.messages):,} messages, {int(at_gate.bytes):,} bytes "
                f"can never fit into {where}; it was rolled back"
            )
    return None


class UnitCommit(Held):
    """A commit that may wait at a gate.

    A check of its road sums up the changes of all its queues and routes. While the commit waits, a check takes constant
    time: the change at the gate that stopped it stays the same until a queue leaves that gate (`on_road_changed`),
    except in the cases of `_still_counts`.
    """

    __slots__ = (
        "unit",
        "batch",
        "publishes",
        "settlements",
        "sums",
        "queue_deltas",
        "shares",
        "road",
        "stopped_by",
    )

    def __init__(self, unit: UnitOfWork) -> None:
        sums = unit.sums if unit.sums.is_current() else sums_of(unit.publishes)
        loads = sums.queues
        charge, messages = sums.bytes, sums.messages
        batch = unit.batch
        if batch is not None:
            batch.bring(loads)
            charge = batch.bytes
            messages = batch.messages
            sums.producers[id(batch.producer)] = ProducerDelta(batch.producer, messages, charge)
        queues = [delta.queue for delta in loads.values() if delta.messages > 0]
        for settlement in unit.settlements:
            message = settlement.message
            stored = isinstance(message, StoredMessage) and settlement.queue.storage is not None
            delta_of(loads, settlement.queue).settle(message.charge, settlement.frees(), stored)
        super().__init__(queues, charge, messages, None, NEVER)
        self.unit = unit
        self.batch = batch
        self.publishes = unit.publishes
        self.settlements = unit.settlements
        self.sums: UnitSums = sums
        self.queue_deltas = list(loads.values())
        self.shares = shares_of(unit.settlements)
        self.road: Road | None = None
        """The road at the present check, for the turn that follows at once; None while the commit waits."""
        self.stopped_by: GateDelta | None = None
        """The change at the gate that stopped the commit last; None after its road changed."""

    @override
    def messages_to(self, queue: Queue) -> i64:
        delta = self.sums.queues.get(id(queue))
        return 0 if delta is None else delta.messages

    # Admission

    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        """Return the first gate that stops the commit; a capacity lowered below its size does not.

        The gate that stopped it last is checked first, so that the cost does not depend on the size of the unit.
        """
        if self.batch is not None and self.batch.is_over():
            return None
        last = self.stopped_by
        if last is not None and last.stops(now, finishing) and self._still_counts(last) and not last.never_fits():
            return last.gate
        road = self._look()
        if road.never_fits is not None:
            return None
        return self._stop_at(road.first_stopping(now, finishing))

    def gate_for_new_publish(self, own: list[Gate], now: float, others_have_turns: bool) -> Gate | None:
        """Return the gate where a new commit must wait; None without one. See `admission.gate_for_new_publish`."""
        if self.batch is not None and self.batch.is_over():
            return None
        road = self._look()
        if road.never_fits is not None:
            return None
        gate = self._stop_at(road.first_for_new(now))
        if gate is None and others_have_turns:
            gate = road.turn_gate()
        return self._stopping_gate(road) if gate is None else gate

    def _look(self) -> Road:
        """Sum up the road, for the present check and for the turn that may follow."""
        road = Road(self._at_gates(), self._at_disk())
        self.road = road
        self.unit.coordinator.producer.broker.work.count(len(self.queue_deltas) // LOOKED_AT_A_UNIT)
        return road

    def _present_road(self) -> Road:
        """Return the road of the present check."""
        road = self.road
        return self._look() if road is None else road

    def _stop_at(self, at_gate: GateDelta | None) -> Gate | None:
        """Record the change at the gate that stops the commit, if any; return the gate."""
        self.stopped_by = at_gate
        if at_gate is None:
            return None
        self.road = None
        return at_gate.gate

    def _still_counts(self, at_gate: GateDelta) -> bool:
        """Return whether the change at the gate that stopped the commit is still the same.

        The change is constant at a queue's gate, at a rate and at an operator's gate. A shared limit applies while any
        queue is above its guaranteed share. At an address, settled messages may have lost their other copies meanwhile,
        which frees more. At a disk gate, transient messages may no longer be paged.
        """
        kind = at_gate.gate.kind
        if kind == "address":
            return not self.shares
        if kind == "disk":
            return not at_gate.pages
        if kind == "queue" or at_gate.gate.guaranteed_bytes < at_gate.more_bytes:
            return True
        return at_gate.limits_any(self.queue_deltas)

    @override
    def on_road_changed(self) -> None:
        self.stopped_by = None

    def _stopping_gate(self, road: Road) -> Gate | None:
        """Return the gate that stops the commit although there is room, or None. See `admission.stopping_gate`.

        A gate whose amount the commit does not increase is not on its road, so a session that drains a queue is not
        stopped.
        """
        longest_s = admission.hold_deadline_s(self.queues)
        coordinator = self.unit.coordinator.producer
        for at_gate in road.at_gates:
            if at_gate.gate.open:
                continue
            if coordinator.is_stopped_at(at_gate.gate, longest_s):
                return at_gate.gate
            for delta in self.sums.producers.values():
                if delta.producer is not coordinator and delta.producer.is_stopped_at(at_gate.gate, longest_s):
                    return at_gate.gate
        return None

    def turn_gate(self) -> Gate | None:
        """Return the gate of the first queue that the commit increases."""
        return self._present_road().turn_gate()

    def never_fits(self) -> ContentTooLarge | None:
        """Return the error for a commit that would wait for room that will never exist, or None."""
        return self._present_road().never_fits

    @override
    def deadline_message(self, own: list[Gate], now: float) -> str:
        if self.deadline > now + CLOSE_ENOUGH_S:
            return "commit refused with an earlier one, and not rolled back"
        at_gate = self._look().first_stopping(now, None)
        why = "others wait before it" if at_gate is None else at_gate.describe()
        end = "not rolled back" if self.keeps() else "rolled back"
        return f"commit refused after {admission.describe_deadline(self.queues)} and {end}; {why}"

    def _at_gates(self) -> list[GateDelta]:
        """Return the changes at the commit's gates, in the order of a publish's road.

        The gates of a producer with credit counted its publishes when the credit was granted.
        """
        at_gates: dict[int, GateDelta] = {}
        for sender in self.sums.producers.values():
            for gate in sender.producer.own if sender.producer.credit is None else NO_GATES:
                gate_delta_at(at_gates, gate).bring(sender.messages, sender.bytes)
        for passage in self.sums.routes.values():
            for gate in passage.route.gates:
                gate_delta_at(at_gates, gate).bring(passage.messages, passage.bytes)
        if self.batch is not None:
            self.batch.bring_to_addresses(at_gates)
        for share, copies in self.shares:
            address = at_gates.get(id(share.depth.gate))
            if address is not None and share.copies == copies:
                address.free(1, share.charge)  # The last copies of the message are removed.
        pools = self._pools()
        for delta in self.queue_deltas:
            if delta.enters():
                add_queue(at_gates, delta, pools)
        return [at_gate for at_gate in at_gates.values() if at_gate.limits_increase()]

    def _at_disk(self) -> list[GateDelta]:
        """Return the changes at the disk gates: additions minus removals. A transient message counts if it is paged."""
        at_gates: dict[int, GateDelta] = {}
        for delta in self.queue_deltas:
            queue = delta.queue
            if delta.messages == 0 or queue.deleted:
                continue
            if delta.persistent > 0 and queue.storage is not None:
                for gate in queue.storage.vhost_usage.gates:
                    gate_delta_at(at_gates, gate).bring(delta.persistent, delta.persistent_bytes)
            pager = queue.pager
            if delta.messages > delta.persistent and pager is not None and pager.pages_next(delta.largest):
                for gate in pager.storage.vhost_usage.gates:
                    transient = delta.bytes - delta.persistent_bytes
                    gate_delta_at(at_gates, gate).bring_paged(delta.messages - delta.persistent, transient)
        for delta in self.queue_deltas if at_gates else []:
            storage = delta.queue.storage
            for gate in storage.vhost_usage.gates if storage is not None and delta.stored > 0 else NO_GATES:
                stored_at = at_gates.get(id(gate))
                if stored_at is not None:
                    stored_at.free(delta.stored, delta.stored_bytes)
        return [at_gate for at_gate in at_gates.values() if at_gate.limits_increase()]

    def _pools(self) -> dict[int, GateDelta]:
        """Return the changes at shared limits, by identity of the gate."""
        pools: dict[int, GateDelta] = {}
        for delta in self.queue_deltas:
            for pool in delta.queue.membership.pools:
                delta.add_to_sum(gate_delta_at(pools, pool.gate))
        if self.batch is not None:
            self.batch.free_pools(pools)
        return pools

    # Passing

    def admit(self) -> str:
        """Apply the settlements, then the publishes in order; no change if an overflow policy refuses."""
        producer = self.unit.coordinator.producer
        broker = producer.broker
        self.unit.leave_account()
        if self.batch is not None:
            if self.batch.is_over():
                self.pass_batch()
                return ""
            gone = self.batch.error()
            if gone is not None:
                self.refuse(gone)
                return ROLLED_BACK
        road = self._present_road()
        self.road = None
        never = road.never_fits
        if never is not None:
            self.refuse(never, NEVER_FITS)
            return NEVER_FITS
        for delta in self.queue_deltas:
            policy = delta.refusing(broker.now)
            if policy is not None:
                self._refused(producer, delta, policy)
                return policy.name
        at_gates = road.at_gates
        if self.batch is not None:
            self.batch.admit(self, at_gates)
            return ""
        broker.work.count(len(self.settlements))  # Each publish counts its queues.
        promises = broker.durable_changes.durable_ops
        self._settle(producer)
        for held in self.publishes:
            ignored: list[Gate] = []
            queues = [queue for queue in held.queues if not queue.deleted]
            own = held.producer.own
            enqueue_all(broker, own, held.route, queues, held.content, held.charge, ignored, True, held.prepaid)
            if queues:
                count_arrival(held.producer, held.route, queues, held.charge)
            else:
                broker.count_unroutable(held.producer, held.route, held.content)
        self.conclude(at_gates, broker.durable_changes.durable_ops != promises)
        return ""

    def conclude(self, at_gates: list[GateDelta], stored: bool) -> None:
        """Answer once all messages are in their queues; `stored`: the answer waits for the store."""
        producer = self.unit.coordinator.producer
        producer.broker.apply_gate_transitions()
        if producer.state is ProducerState.CLOSED:
            return  # The client does not wait for the answer any more.
        # A gate whose amount did not increase withholds nothing: possibly only this session can open it.
        closed = [at_gate.gate for at_gate in at_gates if not at_gate.gate.open and not at_gate.gate.frequent]
        for gate in closed:
            producer.mark_withheld(gate)
        if stored:
            producer.await_disk(producer.confirms.published + 1 if self.pending is None else self.pending.number)
        producer.confirm(self.pending, closed, None, self.queues)
        for gate in closed:
            producer.count_withheld(gate, self.charge)
        if closed and producer.broker.hold_events is not None:
            number = producer.confirms.published if self.pending is None else self.pending.number
            for held in self.publishes:
                begin_withheld(producer, held.route, held.queues, held.content, number, closed[0])

    def pass_batch(self) -> None:
        """Answer for a batch that another request has promoted; the answer waits for the store."""
        producer = self.unit.coordinator.producer
        if producer.state is not ProducerState.CLOSED:
            producer.await_disk(producer.confirms.published + 1 if self.pending is None else self.pending.number)
            producer.confirm(self.pending, [], None, [])

    def refuse_batch(self, error: BrokerError) -> None:
        """Refuse a waiting batch, if its requester still waits for the answer."""
        if self.unit.coordinator.producer.state is not ProducerState.CLOSED:
            self.refuse(error)

    def _settle(self, producer: Producer) -> None:
        """Apply the settlements; consecutive deliveries with the same outcome are applied together."""
        settlements = self.settlements
        at: i64 = 0
        while at < len(settlements):
            first = settlements[at]
            last = first
            at += 1
            while at < len(settlements) and settlements[at].continues(last):
                last = settlements[at]
                at += 1
            session = first.session
            self.unit.coordinator.settled_tags(session).discard(first.tag, last.tag)
            now, outcome = producer.broker.now, first.outcome
            for queue in session.unsettled.settle(first.tag, last.tag, outcome, now, first.added):
                producer.broker.schedule_delivery(queue)

    # Refusal

    @override
    def is_awaited(self) -> bool:
        return True

    def closes_session(self) -> bool:
        """See `Held.closes_session`: the answer of a commit is a confirm, which can report a refusal only in confirm
        mode.
        """
        return not self.unit.coordinator.producer.confirming and not self.keeps()

    @override
    def keeps(self) -> bool:
        return self.unit.coordinator.keeps_refused

    @override
    def follows(self, refused: Held) -> bool:
        return self.keeps() and isinstance(refused, UnitCommit) and refused.unit.coordinator is self.unit.coordinator

    @override
    def reopen(self, refused: list[Held]) -> None:
        units = [held.unit for held in refused if isinstance(held, UnitCommit)]
        self.unit.coordinator.reopen(units)

    def refuse(self, error: BrokerError, cause: str = ROLLED_BACK, gate: Gate | None = None) -> None:
        """Roll the commit back after it has left the outbox; without confirm mode its producer's session closes."""
        producer = self.unit.coordinator.producer
        if not producer.confirming:
            producer.fail(error)
            return
        self._roll_back(error)
        pending = producer.confirms.hold(NEVER) if self.pending is None else self.pending
        producer.confirms.refuse(pending, Refusal(cause, gate, error=error))
        producer.after_release(producer.broker.now)

    def return_to_publisher(self, own: list[Gate], now: float) -> None:
        """Roll the commit back at its deadline, unless it stays open; its publishes are not returned one by one."""
        if not self.keeps():
            self._roll_back(ResourceError(self.deadline_message(own, now)))

    def _roll_back(self, error: BrokerError) -> None:
        self.unit.error = error
        self.unit.leave_account()
        self.unit.coordinator.forget(self.settlements)

    def _refused(self, producer: Producer, delta: QueueDelta, policy: OverflowPolicy) -> None:
        """Refuse the whole commit, because a queue's overflow policy refuses a part."""
        queue = delta.queue
        queue.count_refusal()
        more = adds(delta.messages - delta.freed, delta.bytes - delta.freed_bytes)
        producer.count_refused(queue.gate, policy.name, delta.bytes)
        error = ResourceError(f"commit refused and rolled back; {admission.refusal_error(queue)}; {more}")
        self.refuse(error, policy.name, queue.gate)
        if policy.destroys:
            producer.broker.delete_queue(queue)
