"""Commit of a unit of work: all its publishes and settlements pass in one turn, all or nothing.

Theory of operation. A commit changes each queue by its publishes, less the messages that its own acknowledgements
remove there. It must pass the gates of the amounts that it increases (a queue's depth, a shared limit, an address), and
the gates without an amount (operator gates, rates), with those of each producer that published. An amount that it does
not increase does not stop it, however full. So a client that consumes from a full queue and publishes into the same one
goes on, and commits of acknowledgements alone never wait. A commit waits as a publish does: at one gate, with one
ticket, charged with its sum. Its confirm is withheld by the closed gates that it has passed.

Publishes of a unit keep their order. Those of another producer than the coordinator's do not wait for publishes that
this producer holds outside of the unit: an outbox waits at one gate only, and a commit must not wait for two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.message import StoredMessage
from penstock.core.publish import admission
from penstock.core.publish.admission import enqueue_all
from penstock.core.publish.commit_delta import (
    GateDelta,
    QueueDelta,
    Settlement,
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
from penstock.core.routing.route import Route
from penstock.errors import BrokerError, ContentTooLarge, ResourceError
from penstock.flow.gate import NEVER_FITS, NO_GATES, ROLLED_BACK, Gate, Refusal
from penstock.flow.timers import CLOSE_ENOUGH_S, NEVER

if TYPE_CHECKING:
    from penstock.core.publish.unit_of_work import UnitOfWork


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


def producer_deltas_of(publishes: list[HeldPublish]) -> list[ProducerDelta]:
    """Sum the publishes by producer, in the order of their first publish."""
    deltas: dict[int, ProducerDelta] = {}
    for held in publishes:
        delta = deltas.get(id(held.producer))
        if delta is None:
            delta = ProducerDelta(held.producer)
            deltas[id(held.producer)] = delta
        delta.messages += 1
        delta.bytes += held.charge
    return list(deltas.values())


def route_deltas_of(publishes: list[HeldPublish]) -> list[RouteDelta]:
    """Sum the publishes by route; routes that depend on headers only matter where gates exist."""
    passages: dict[int, RouteDelta] = {}
    for held in publishes:
        route = held.route
        if route.gates or not route.by_headers:
            passage = passages.get(id(route))
            if passage is None:
                passage = RouteDelta(route)
                passages[id(route)] = passage
            passage.messages += 1
            passage.bytes += held.charge
    return list(passages.values())


@mypyc_attr(allow_interpreted_subclasses=True)
class RowBatch:
    """Rows that a commit publishes in addition to its own publishes. They enter their queues after it has passed.

    Those are the results of a query that are published as a whole (ranges/promotions.py).
    """

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Number of its rows, and the sum of their charges."""

    def is_over(self) -> bool:
        """Return whether nothing is left to be published: that was done already, or is not wanted any more."""
        raise NotImplementedError

    def error(self) -> BrokerError | None:
        """Return why it cannot be published any more; None if it can."""
        raise NotImplementedError

    def bring(self, deltas: dict[int, QueueDelta]) -> None:
        """Count its rows in the changes of queues."""
        raise NotImplementedError

    def bring_to_addresses(self, at_gates: dict[int, GateDelta]) -> None:
        """Count its rows at the gates of addresses."""
        raise NotImplementedError

    def free_pools(self, pools: dict[int, GateDelta]) -> None:
        """Subtract the amounts that shared limits already count from the changes."""
        raise NotImplementedError

    def admit(self, commit: UnitCommit, at_gates: list[GateDelta]) -> None:
        """Take over from a commit that has passed these gates; the end is `UnitCommit.conclude`."""
        raise NotImplementedError


class UnitCommit(Held):
    """A commit that may wait at a gate."""

    __slots__ = (
        "unit",
        "batch",
        "publishes",
        "settlements",
        "producer_deltas",
        "queue_deltas",
        "route_deltas",
        "shares",
        "stopped_by",
    )

    def __init__(self, unit: UnitOfWork, publishes: list[HeldPublish], settlements: list[Settlement]) -> None:
        loads: dict[int, QueueDelta] = {}
        charge: i64 = 0
        for held in publishes:
            charge += held.charge
            for queue in held.queues:
                delta_of(loads, queue).bring(held.charge, held.content, held.route.envelope.persistent)
        messages: i64 = len(publishes)
        producers = producer_deltas_of(publishes)
        batch = unit.batch
        if batch is not None:
            batch.bring(loads)
            charge = batch.bytes
            messages = batch.messages
            producers.append(ProducerDelta(batch.producer, messages, charge))
        queues = [delta.queue for delta in loads.values()]
        for settlement in settlements:
            delta_of(loads, settlement.queue).settle(settlement.message.charge, settlement.frees())
        super().__init__(queues, charge, messages, None, NEVER)
        self.unit = unit
        self.batch = batch
        self.publishes = publishes
        self.settlements = settlements
        self.producer_deltas = producers
        self.queue_deltas = list(loads.values())
        self.route_deltas = route_deltas_of(publishes)
        self.shares = shares_of(settlements)
        self.stopped_by: GateDelta | None = None
        """Its change at the gate of the queue that stopped it last: the same at each look. None: another stopped it."""

    # Admission

    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        """Return the first gate that stops it; a capacity lowered below its size does not.

        The gate that stopped it last comes first, so that a look costs the same however large the unit is.
        """
        if self.batch is not None and self.batch.is_over():
            return None
        last = self.stopped_by
        if last is not None and self._is_on_road(last.gate) and last.stops(now, finishing) and not last.never_fits():
            return last.gate
        self.stopped_by = None
        if self.never_fits() is not None:
            return None
        at_gate = self._obstructed(now, finishing)
        if at_gate is not None and self._is_on_road(at_gate.gate):
            self.stopped_by = at_gate
        return None if at_gate is None else at_gate.gate

    def _is_on_road(self, gate: Gate) -> bool:
        """Return whether a gate is that of a queue which is there, and stops what comes into it."""
        for delta in self.queue_deltas:
            if delta.queue.gate is gate:
                return not delta.queue.deleted and gate in delta.queue.gates
        return False

    def gate_for_new_publish(self, own: list[Gate], now: float, others_have_turns: bool) -> Gate | None:
        """Return the gate where a new commit must wait; None: none. See `admission.gate_for_new_publish`."""
        if self.batch is not None and self.batch.is_over():
            return None
        if self.never_fits() is not None:
            return None
        for at_gate in self._road(True) + self._disk():
            if at_gate.gate.has_line() or not at_gate.has_room(now):
                return at_gate.gate
        return self.turn_gate() if others_have_turns else None

    def stopping_gate(self) -> Gate | None:
        """Return the gate that stops it although there is room, or None. See `admission.stopping_gate`.

        A gate whose amount it does not increase is not on its road, so a session that drains a queue is not stopped.
        """
        longest_s = admission.hold_deadline_s(self.queues)
        coordinator = self.unit.coordinator.producer
        for at_gate in self._road(False):
            if coordinator.is_stopped_at(at_gate.gate, longest_s):
                return at_gate.gate
            for delta in self.producer_deltas:
                if delta.producer is not coordinator and delta.producer.is_stopped_at(at_gate.gate, longest_s):
                    return at_gate.gate
        return None

    def turn_gate(self) -> Gate | None:
        """Return the gate of the first queue that it increases."""
        for at_gate in self._road(False):
            if at_gate.gate.kind == "queue":
                return at_gate.gate
        return None

    def never_fits(self) -> ContentTooLarge | None:
        """Return the error for a commit that would wait for room that it can never have, or None."""
        for at_gate in self._road(False):
            where = at_gate.never_fits()
            if where:
                return ContentTooLarge(
                    f"a transaction that brings {int(at_gate.messages):,} messages, {int(at_gate.bytes):,} bytes "
                    f"can never fit into {where}; it was rolled back"
                )
        return None

    @override
    def deadline_message(self, own: list[Gate], now: float) -> str:
        if self.deadline > now + CLOSE_ENOUGH_S:
            return "commit refused with an earlier one, and not rolled back"
        at_gate = self._obstructed(now, None)
        why = "others wait before it" if at_gate is None else at_gate.describe()
        end = "not rolled back" if self.keeps() else "rolled back"
        return f"commit refused after {admission.describe_deadline(self.queues)} and {end}; {why}"

    def _obstructed(self, now: float, finishing: Gate | None) -> GateDelta | None:
        for at_gate in self._road(True) + self._disk():
            if at_gate.stops(now, finishing):
                return at_gate
        return None

    def _road(self, whole: bool) -> list[GateDelta]:
        """Return the changes at its gates, in the order of a publish's road; `whole`: also at those of producers.

        Those of a producer with credit counted its publishes when the credit was granted.
        """
        at_gates: dict[int, GateDelta] = {}
        for sender in self.producer_deltas if whole else []:
            for gate in sender.producer.own if sender.producer.credit is None else NO_GATES:
                gate_delta_at(at_gates, gate).bring(sender.messages, sender.bytes)
        for passage in self.route_deltas:
            for gate in passage.route.gates:
                gate_delta_at(at_gates, gate).bring(passage.messages, passage.bytes)
        if self.batch is not None:
            self.batch.bring_to_addresses(at_gates)
        for share, copies in self.shares:
            address = at_gates.get(id(share.depth.gate))
            if address is not None and share.copies == copies:
                address.free(1, share.charge)  # The last copies of that message are removed.
        pools = self._pools()
        for delta in self.queue_deltas:
            if delta.enters():
                add_queue(at_gates, delta, pools)
        return [at_gate for at_gate in at_gates.values() if at_gate.limits_increase()]

    def _disk(self) -> list[GateDelta]:
        """Return the changes at the disk gates: additions less removals."""
        at_gates: dict[int, GateDelta] = {}
        for delta in self.queue_deltas:
            if delta.persistent > 0 and delta.queue.storage is not None and not delta.queue.deleted:
                for gate in delta.queue.storage.vhost_usage.gates:
                    gate_delta_at(at_gates, gate).bring(delta.persistent, delta.persistent_bytes)
        for delta in self.queue_deltas if self.batch is not None else []:
            pager = delta.queue.pager
            if delta.messages > delta.persistent and pager is not None and pager.pages_next(delta.largest):
                for gate in pager.storage.vhost_usage.gates:
                    transient = delta.bytes - delta.persistent_bytes
                    gate_delta_at(at_gates, gate).bring(delta.messages - delta.persistent, transient)
        for held in self.publishes:  # A transient one counts on the disk only if it is paged.
            for queue in held.queues if not held.route.envelope.persistent else []:
                for gate in admission.disk_gates(held.route, queue, held.charge):
                    gate_delta_at(at_gates, gate).bring(1, held.charge)
        for settlement in self.settlements if at_gates else []:
            storage, message = settlement.queue.storage, settlement.message
            if storage is None or not isinstance(message, StoredMessage) or not settlement.frees():
                continue
            for gate in storage.vhost_usage.gates:
                at_gate = at_gates.get(id(gate))
                if at_gate is not None:
                    at_gate.free(1, message.charge)
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
        """Apply the settlements, then the publishes in order; nothing, if an overflow policy refuses."""
        producer = self.unit.coordinator.producer
        broker = producer.broker
        if self.batch is not None:
            if self.batch.is_over():
                self.pass_batch()
                return ""
            gone = self.batch.error()
            if gone is not None:
                self.refuse(gone)
                return ROLLED_BACK
        never = self.never_fits()
        if never is not None:
            self.refuse(never, NEVER_FITS)
            return NEVER_FITS
        for delta in self.queue_deltas:
            if delta.refused(broker.now):
                self._refused(producer, delta)
                return delta.queue.overflow.name
        at_gates = self._road(True)
        if self.batch is not None:
            self.batch.admit(self, at_gates)
            return ""
        broker.work.count(len(self.settlements))  # Each publish counts its queues.
        promises = broker.durable_changes.durable_ops
        self._settle(producer)
        ignored: list[Gate] = []
        for held in self.publishes:
            queues = [queue for queue in held.queues if not queue.deleted]
            own = held.producer.own
            enqueue_all(broker, own, held.route, queues, held.content, held.charge, ignored, True, held.prepaid)
            if queues:
                count_arrival(held.producer, queues, held.charge)
            else:
                broker.count_unroutable(held.producer, held.route, held.content)
        self.conclude(at_gates, broker.durable_changes.durable_ops != promises)
        return ""

    def conclude(self, at_gates: list[GateDelta], stored: bool) -> None:
        """Answer, once everything is in its queues; `stored`: the store is to have it first."""
        producer = self.unit.coordinator.producer
        producer.broker.apply_gate_transitions()
        if producer.state is ProducerState.CLOSED:
            return  # Nobody waits for the answer any more.
        # A gate whose amount it did not increase withholds nothing: perhaps only this session can open it.
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
        """Answer for a batch that another request has promoted: the store is to have that first."""
        producer = self.unit.coordinator.producer
        if producer.state is not ProducerState.CLOSED:
            producer.await_disk(producer.confirms.published + 1 if self.pending is None else self.pending.number)
            producer.confirm(self.pending, [], None, [])

    def refuse_batch(self, error: BrokerError) -> None:
        """Refuse a batch that has waited in the line, if its requester still waits for the answer."""
        if self.unit.coordinator.producer.state is not ProducerState.CLOSED:
            self.refuse(error)

    def _settle(self, producer: Producer) -> None:
        broker = producer.broker
        coordinator = self.unit.coordinator
        for settlement in self.settlements:
            session, tag = settlement.session, settlement.tag
            coordinator.settled_tags(session).tags.discard(tag)
            for queue in session.unsettled.settle(tag, tag, settlement.outcome, broker.now, settlement.added):
                broker.schedule_delivery(queue)

    # Refusal

    def closes_session(self) -> bool:
        """See `Held.closes_session`: the answer of a commit is a confirm, which says a refusal only in confirm mode."""
        return not self.unit.coordinator.producer.confirming and not self.keeps()

    def keeps(self) -> bool:
        """Return whether its unit stays open if it is refused at its deadline."""
        return self.unit.coordinator.keeps_refused

    @override
    def follows(self, refused: Held) -> bool:
        return self.keeps() and isinstance(refused, UnitCommit) and refused.unit.coordinator is self.unit.coordinator

    @override
    def reopen(self) -> None:
        if self.keeps():
            self.unit.reopen()

    def refuse(self, error: BrokerError, cause: str = ROLLED_BACK, gate: Gate | None = None) -> None:
        """Roll it back, when it is no longer in the outbox; without confirm mode the session of its producer closes."""
        producer = self.unit.coordinator.producer
        if not producer.confirming:
            producer.fail(error)
            return
        self._roll_back(error)
        pending = producer.confirms.hold(NEVER) if self.pending is None else self.pending
        producer.confirms.refuse(pending, Refusal(cause, gate, error=error))
        producer.after_release(producer.broker.now)

    def return_to_publisher(self, own: list[Gate], now: float) -> None:
        """Roll it back at its deadline, unless it stays open; its publishes are not returned one by one."""
        if not self.keeps():
            self._roll_back(ResourceError(self.deadline_message(own, now)))

    def _roll_back(self, error: BrokerError) -> None:
        self.unit.error = error
        self.unit.coordinator.forget(self.settlements)

    def _refused(self, producer: Producer, delta: QueueDelta) -> None:
        """Refuse the whole commit, because a queue's overflow policy refuses a part."""
        queue = delta.queue
        queue.count_refusal()
        more = adds(delta.messages - delta.freed, delta.bytes - delta.freed_bytes)
        producer.count_refused(queue.gate, queue.overflow.name, delta.bytes)
        error = ResourceError(f"commit refused and rolled back; {admission.refusal_error(queue)}; {more}")
        self.refuse(error, queue.overflow.name, queue.gate)
        if queue.overflow.destroys:
            producer.broker.delete_queue(queue)
