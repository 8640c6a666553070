"""A commit: everything that one transaction brings and settles, passed in one turn, all or nothing.

Theory of operation. A commit changes each queue by what it publishes into it, less what its own acknowledgements free
there. It must pass the gates of those amounts that it makes grow (a queue's depth, a pool, an address), and those that
guard no amount (an operator's, a rate). An amount that it does not make grow does not stop it, however full: a session
that takes from a full queue and publishes into the same one goes on, and commits that only acknowledge wait for
nothing. Where it must wait, it waits as a publish does: at one gate, with one ticket, its charge the sum of all.

Its confirmation (tx.commit-ok) is withheld by the gates that it passed and that are closed behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.message import StoredMessage
from penstock.core.publish import admission
from penstock.core.publish.commit_delta import (
    DISCARD,
    REQUEUE,
    GateDelta,
    QueueDelta,
    Settlement,
    add_queue,
    adds,
    delta_of,
    gate_delta_at,
    route_deltas_of,
    shares_of,
)
from penstock.core.publish.enqueue import enqueue_all
from penstock.core.publish.held import Held, HeldPublish
from penstock.errors import ContentTooLarge, ResourceError
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.core.publish.producer import Producer
    from penstock.core.publish.transaction import Transaction


class TxCommit(Held):
    """A commit on its way in."""

    __slots__ = ("transaction", "publishes", "settlements", "queue_deltas", "route_deltas", "shares")

    def __init__(self, transaction: Transaction, publishes: list[HeldPublish], settlements: list[Settlement]) -> None:
        loads: dict[int, QueueDelta] = {}
        charge: i64 = 0
        for held in publishes:
            charge += held.charge
            for queue in held.queues:
                delta_of(loads, queue).bring(held.charge, held.content)
        queues = [load.queue for load in loads.values()]
        for settlement in settlements:
            delta_of(loads, settlement.queue).settle(settlement.message.charge, settlement.frees())
        super().__init__(queues, charge, len(publishes), None, NEVER)
        self.transaction = transaction
        self.publishes = publishes
        self.settlements = settlements
        self.queue_deltas = list(loads.values())
        self.route_deltas = route_deltas_of(publishes)
        self.shares = shares_of(settlements)

    # The road

    def first_closed_gate(self, own: list[Gate], now: float) -> Gate | None:
        """See `Held.first_closed_gate`. Nothing waits for room that cannot come any more (a capacity was lowered)."""
        if self.never_fits() is not None:
            return None
        stop = self._obstructed(own, now)
        return None if stop is None else stop.gate

    def gate_for_new_publish(self, own: list[Gate], now: float, others_go: bool) -> Gate | None:
        """Return where it must stand in line as it comes; None: nowhere. See `road.gate_for_new_publish`."""
        if self.never_fits() is not None:
            return None
        for stop in self._road(own) + self._disk():
            if stop.gate.waiters or not stop.has_room(now):
                return stop.gate
        return self.turn_gate() if others_go else None

    def stopping_gate(self, producer: Producer) -> Gate | None:
        """Return the gate that stops it although there is room, or None. See `road.stopping_gate`.

        A gate whose amount it does not make grow is not on its road, so a session that drains a queue is not stopped.
        """
        longest_s = admission.hold_deadline_s(self.queues)
        for stop in self._road([]):
            if producer.is_stopped_at(stop.gate, longest_s):
                return stop.gate
        return None

    def turn_gate(self) -> Gate | None:
        """See `Held.describe_target`: the gate of the first queue that it makes grow."""
        for stop in self._road([]):
            if stop.gate.kind == "queue":
                return stop.gate
        return None

    def never_fits(self) -> ContentTooLarge | None:
        """Return the error for a commit that would have to wait for room that it can never have, or None."""
        for stop in self._road([]):
            where = stop.never_fits()
            if where:
                return ContentTooLarge(
                    f"a transaction that brings {int(stop.messages):,} messages, {int(stop.bytes):,} bytes can never "
                    f"fit into {where}; it was rolled back"
                )
        return None

    def deadline_message(self, own: list[Gate], now: float) -> str:
        """See `Held.deadline_message`."""
        stop = self._obstructed(own, now)
        why = "others wait before it" if stop is None else stop.describe()
        return f"commit refused after {admission.describe_deadline(self.queues)} and rolled back; {why}"

    def _obstructed(self, own: list[Gate], now: float) -> GateDelta | None:
        for stop in self._road(own) + self._disk():
            if not ((stop.gate.open or stop.gate.finishing_round) and stop.has_room(now)):
                return stop
        return None

    def _road(self, own: list[Gate]) -> list[GateDelta]:
        """Return what it must pass, in the order of a publish's road."""
        stops: dict[int, GateDelta] = {}
        for gate in own if self.messages else []:
            gate_delta_at(stops, gate).bring(self.messages, self.charge)
        for passage in self.route_deltas:
            for gate in passage.route.gates:
                gate_delta_at(stops, gate).bring(passage.messages, passage.bytes)
        for share, copies in self.shares:
            address = stops.get(id(share.depth.gate))
            if address is not None and share.copies == copies:
                address.free(1, share.charge)  # The last copies of that message leave.
        pools = self._pools()
        for load in self.queue_deltas:
            if load.enters():
                add_queue(stops, load, pools)
        return [stop for stop in stops.values() if stop.limits_increase()]

    def _disk(self) -> list[GateDelta]:
        """Return the gates of the disk that it must pass: for what it brings there, less what it frees."""
        stops: dict[int, GateDelta] = {}
        for held in self.publishes:
            for queue in held.queues:
                for gate in admission.disk_gates(held.route, queue, held.charge):
                    gate_delta_at(stops, gate).bring(1, held.charge)
        for settlement in self.settlements if stops else []:
            kept, message = settlement.queue.storage, settlement.message
            if kept is None or not isinstance(message, StoredMessage) or not settlement.frees():
                continue
            for gate in kept.vhost_usage.gates:
                stop = stops.get(id(gate))
                if stop is not None:
                    stop.free(1, message.charge)
        return [stop for stop in stops.values() if stop.limits_increase()]

    def _pools(self) -> dict[int, GateDelta]:
        """Return what it does to each pool, by identity of the pool's gate."""
        pools: dict[int, GateDelta] = {}
        for load in self.queue_deltas:
            for pool in load.queue.membership.pools:
                load.add_to_sum(gate_delta_at(pools, pool.gate))
        return pools

    # Passing

    def admit(self) -> None:
        """See `Held.admit`: settlements first, then publishes in their order; or nothing, where a policy refuses."""
        producer = self.transaction.producer
        broker = producer.broker
        never = self.never_fits()
        if never is not None:
            producer.fail(never)
            return
        for load in self.queue_deltas:
            if load.refused(broker.now):
                self._refused(producer, load)
                return
        stops = self._road(producer.own)
        promises = broker.durable_changes.durable_ops
        self._settle(producer)
        ignored: list[Gate] = []
        for held in self.publishes:
            queues = [queue for queue in held.queues if not queue.deleted]
            enqueue_all(broker, producer.own, held.route, queues, held.content, held.charge, ignored, True)
            if not queues:
                broker.count_unroutable(producer, held.route, held.content)
        broker.apply_gate_transitions()
        # A gate whose amount it did not make grow withholds nothing: only this very session may be able to open it.
        closed = [stop.gate for stop in stops if not stop.gate.open and not stop.gate.frequent]
        for gate in closed:
            producer.mark_withheld(gate)
        if broker.durable_changes.durable_ops != promises:
            producer.await_disk(producer.confirms.published + 1 if self.pending is None else self.pending.number)
        producer.confirm(self.pending, closed, None, self.queues, self.charge)

    def _settle(self, producer: Producer) -> None:
        session = self.transaction.session
        broker = producer.broker
        for settlement in self.settlements:
            self.transaction.settled_tags.discard(settlement.tag)
            if settlement.how == REQUEUE:
                for queue in session.requeue(settlement.tag, False, broker.now):
                    broker.schedule_delivery(queue)
            elif settlement.how == DISCARD:
                session.reject(settlement.tag, False, broker.now)
            else:
                session.acknowledge(settlement.tag, False, broker.now)

    def _refused(self, producer: Producer, load: QueueDelta) -> None:
        """A queue's overflow policy refuses a part: nothing of it goes in, anywhere."""
        queue = load.queue
        queue.count_refusal()
        more = adds(load.messages - load.freed, load.bytes - load.freed_bytes)
        producer.count_refused(queue.gate, queue.overflow.name, load.bytes)
        producer.fail(ResourceError(f"commit refused and rolled back; {admission.refusal_error(queue)}; {more}"))
        if queue.overflow.destroys:
            producer.broker.delete_queue(queue)
