"""A producer: admission of its publishes, its outbox of held publishes, and its confirms.

Theory of operation. A publish has one of four outcomes:

- *accepted*: it fits, no waiter comes before it, and it is in its queues. If a gate on its road is closed (perhaps by
this message) the producer is blocked and the confirm is withheld; that of a *prompt* producer is not.
- *held*: it would take a queue past its capacity, or waiters come before it, or its producer has waited a whole hold
deadline at a gate that is still closed. It stays in the outbox, in order, with a deadline, and passes in turn.
- *refused*: by a policy, at the hold limit, or at its deadline. It is in no queue, except that a queue with another
policy may have its copy (as in RabbitMQ).
- *unroutable*: it reaches no queue and is confirmed, for there is nothing to wait for.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.gates.rate_gate import RateGate
from penstock.core.journal.group import NONE_UNFLUSHED, DurabilityListener, JournalGroup, UnflushedConfirm
from penstock.core.message import Message, StoredMessage
from penstock.core.publish import admission
from penstock.core.publish.admission import NOT_PREPAID, enqueue_all
from penstock.core.publish.connection_gates import ConnectionGates, count_refused
from penstock.core.publish.held import (
    ENDED,
    REPORT_WORK,
    SUMMED_A_UNIT,
    HeldPublish,
    Loss,
    ProducerEnded,
    begin_withheld,
    count_dropped,
    drop_held,
    drop_unconfirmed,
    reported,
)
from penstock.core.publish.hold_room import HoldBudget, held_bytes
from penstock.core.publish.outbox import Held, due_at
from penstock.core.publish.producer_listener import NO_CLIENT, ProducerListener
from penstock.core.publish.standstill import Standstill
from penstock.core.publish.waiting_publisher import (
    COMPARED_A_UNIT,
    PRODUCER_STATES,
    REFUSAL_WORK,
    ProducerState,
    WaitingPublisher,
    WithheldRun,
    count_arrival,
    end_hold,
    stopping_gate,
)
from penstock.core.queue.cursor_state import NO_QUERY, PinnedRoom, QueryId
from penstock.core.queue.queue import Queue
from penstock.core.queue.storage import QueueStorage
from penstock.core.routing.route import Route
from penstock.core.settings.limits import Limits
from penstock.errors import BrokerError, ContentTooLarge, ResourceError
from penstock.flow.confirms import WITHHELD, Confirms, PendingConfirm
from penstock.flow.gate import DEADLINE, DELETED, HOLD_BOUND, NEVER_FITS, NO_GATES, Gate, Refusal
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import CLOSE_ENOUGH_S, NEVER

if TYPE_CHECKING:
    from penstock.core.publish.context import PublishContext
    from penstock.core.publish.producer_lanes import Lane
    from penstock.core.publish.sender_credit import SenderCredit
    from penstock.core.publish.unit_of_work import Transaction


@mypyc_attr(allow_interpreted_subclasses=True)
class Producer(WaitingPublisher, DurabilityListener):
    """The publishing side of a session."""

    def __init__(
        self,
        broker: PublishContext,
        name: str,
        holding: HoldBudget,
        origin: ConnectionGates | None = None,
        listener: ProducerListener = NO_CLIENT,
        rates: Limits | None = None,
    ) -> None:
        super().__init__(broker, name, holding, listener, origin)
        self.origin = origin
        """Gates of the connection and user; None for producers without a connection."""
        if origin is not None:
            self.writes = origin.writes
        self.confirming: bool = False
        """True if the next publish gets a confirm. A protocol may change it between publishes."""
        self.prompt: bool = False
        """True if no closed gate withholds the confirms; the client stops by another signal (withdrawal.py)."""
        self.confirms = Confirms()
        self.fast_path: bool = True
        """True if nothing is held, all confirms are in the ordinary state, and no gate in `own` may stop a message."""
        self.withheld_run: WithheldRun | None = None
        """State of the last publish behind a closed gate, for further ones of this turn."""
        self.scheduled: bool = False
        """True if the broker has listed the producer as having confirms to send."""
        self.state: ProducerState = ProducerState.OPEN
        self.loss: Loss | None = None
        """Held publishes lost since its session closed; None for none."""
        self.transaction: Transaction | None = None
        """The open transaction, which collects publishes until the commit; None outside of class tx."""
        self.rate: RateGate | None = None
        """The producer's rate limit; None without one."""
        self.rates = rates
        """Rates that the client has set for this producer; None without any."""
        self._is_rated: bool = False
        """True if a rate is among the gates in `own`."""
        self.unflushed: deque[UnflushedConfirm] = NONE_UNFLUSHED
        """Journal groups that the confirms wait for, oldest first; each group once."""
        self._awaited: JournalGroup | None = None
        """The newest of these groups, for the fast path."""
        self.credit: SenderCredit | None = None
        """Credit of the client; None if the protocol has none."""
        self.has_stored: bool = False
        """True if a message on credit had to be stored since the last settlement of credit."""
        self.query: QueryId = NO_QUERY
        """Query whose results are published; otherwise a query without a name."""
        self.lane: Lane | None = None
        """Lane that this producer publishes for; None without one."""
        self.standstill: Standstill | None = None
        """Progress of publishes without confirms; None before the first held one."""
        if origin is not None:
            broker.add_producer(origin, self)

    def pinned_room(self) -> PinnedRoom | None:
        """Return the room that the query pins; None for producers without a query."""
        return self.broker.pinned_rooms.of(self.query) if self.query.name else None

    def set_gates(self, own: list[Gate]) -> None:
        """Set the gates on the road of all messages."""
        self.own = own
        self._is_rated = any(gate.frequent for gate in own)
        self._update_fast_path()

    def _update_fast_path(self) -> None:
        is_gated = len(self.own) > 0
        if self.credit is not None:
            is_gated = self._is_rated  # The other gates stop the grants instead.
        self.fast_path = not is_gated and self.is_ordinary() and not self.confirms.pending
        self.withheld_run = None

    def is_ordinary(self) -> bool:
        """Return whether the producer accepts publishes, holds none, and has no transaction."""
        return self.state is ProducerState.OPEN and self.transaction is None and not self.outbox

    def disable_fast_path(self) -> None:
        """Take the slow path until `_update_fast_path` permits the fast path again."""
        self.fast_path = False
        self.withheld_run = None

    # Publishing

    def publish(self, route: Route, content: bytes, charge: i64) -> None:
        """Handle a publish of the client; the module's docstring lists the outcomes."""
        if not publish_at_once(self, route, content, charge):
            self.publish_slowly(route, content, charge)

    def publish_slowly(self, route: Route, content: bytes, charge: i64, prepaid: int = NOT_PREPAID) -> None:
        """Handle a publish off the fast path; `prepaid`: see `HeldPublish`."""
        if self.state is not ProducerState.OPEN:
            return
        error = self.listener.publish_error()
        if error is not None:
            self.close(error)
            return
        row = self.withheld_run
        if row is not None and self.confirming and row.takes(route.single_queue_for(), charge, self.broker):
            self._append(row.queue, route, content, charge)
            self.confirms.published += 1
            if route.stored_queue is not None:
                self.await_disk(self.confirms.published)
            row.join(self.confirms.published, charge)
            return
        if self.transaction is not None:
            self.transaction.add_publish(route, content, charge)
            return
        broker = self.broker
        broker.run_waiting()
        broker.work.done += len(route.queues) // admission.LOOKED_AT_A_UNIT
        never = admission.too_large_error(route, route.queues, charge, broker.now)
        if never is not None:
            others = self.unconfirmed_held()
            self.close(ContentTooLarge(lost_with(others + 1, str(never))) if others else never)
            return
        obstacle: Gate | None = None
        if not self.outbox:  # Otherwise the publish waits behind the held ones.
            pending, room = broker.turns.pending, self.pinned_room()
            obstacle = admission.gate_for_new_publish(
                self.own, route, route.queues, charge, broker.now, pending, prepaid, room
            )
            if obstacle is None:
                obstacle = stopping_gate(self, route, content, charge, broker.now, room)
            if obstacle is None and prepaid == NOT_PREPAID:
                obstacle = admission.gate_of_returning(broker.turns, self, route, charge, broker.now)
        if self.outbox or obstacle is not None:
            self._hold(route, content, charge, obstacle, prepaid)
        else:
            self.accept(route, route.queues, content, charge, None, self.confirming, prepaid)

    def _append(self, queue: Queue, route: Route, content: bytes, charge: i64) -> None:
        """Append a message that crosses no threshold to the only queue of its route."""
        queue.append(route.envelope, content, charge, self.broker.now)
        route.counters.published += 1
        count_arrival(self, route, route.queues, charge)
        self.broker.schedule_delivery(queue)

    def _hold(self, route: Route, content: bytes, charge: i64, obstacle: Gate | None, prepaid: int) -> None:
        holding = self.hold_budget
        taken = held_bytes(charge, len(route.queues))
        if not (holding.fits(taken) if prepaid == NOT_PREPAID else holding.fits_on_credit(taken)):
            held = f"{holding.messages} publishes ({holding.bytes} bytes) are held already"
            self._refuse_new(route, held, content, charge)
            return
        if not self.outbox or self.outbox[-1].since != self.broker.now:  # Within one instant nothing falls due.
            self.mark_stops()
        deadline = self.deadline_of(route.queues)
        pending = self.confirms.hold(deadline) if self.confirming else None
        holding.take(taken, 1)
        self.stopped_exchange = route.envelope.exchange
        self.wait_in_line(HeldPublish(self, route, content, charge, pending, deadline, prepaid), obstacle)

    @override
    def waits_at(self, gate: Gate, now: float) -> None:
        super().waits_at(gate, now)
        self.entry(gate).hold_deadline_s = admission.hold_deadline_s(self.outbox[0].queues)

    @override
    def wait_in_line(self, held: Held, obstacle: Gate | None) -> None:
        super().wait_in_line(held, obstacle)
        if not held.is_awaited():
            if self.standstill is None:
                self.standstill = Standstill()
            deadline_s = admission.hold_deadline_s(self.outbox[0].queues)
            self.wake_at(self.standstill.begin(self.gate, deadline_s, self.broker.now))
        self.disable_fast_path()
        self.listener.on_held(held)

    def accept(
        self,
        route: Route,
        queues: list[Queue],
        content: bytes,
        charge: i64,
        pending: PendingConfirm | None,
        confirmed: bool,
        prepaid: int = NOT_PREPAID,
    ) -> Refusal | None:
        """Enqueue a message and handle its confirm, if there is one; return the refusal of a queue, None without one.

        `pending` is the confirm of a held publish. `prepaid`: see `HeldPublish`.
        """
        queue = admission.queue_at_once(self.own, route, queues, charge)
        if queue is not None and (pending is not None or not confirmed):
            self._append(queue, route, content, charge)
            if pending is not None:
                self.confirms.accepted(pending, NO_GATES)
                if route.stored_queue is not None:
                    self.await_disk(pending.number)
            return None
        closed: list[Gate] = []
        promises = self.broker.durable_changes.durable_ops
        room = self.pinned_room()
        refused = enqueue_all(self.broker, self.own, route, queues, content, charge, closed, False, prepaid, room)
        if confirmed and self.broker.durable_changes.durable_ops != promises:
            self.await_disk(self.confirms.published + 1 if pending is None else pending.number)
        self.broker.apply_gate_transitions()  # The gate's closing is emitted before the blocks that result from it.
        for gate in closed:
            self.mark_withheld(gate)
            self.entry(gate).hold_deadline_s = admission.hold_deadline_s(route.queues)
            self.stopped_exchange = route.envelope.exchange
        refusal = None if refused is None else self.refuse_at(refused, route, content, charge, confirmed)
        if not queues:
            self.broker.count_unroutable(self, route, content)
            if route.mandatory and self.confirms.lane is not None:  # The client treats the publish as refused.
                self.confirms.lane.refuse(self.confirms.published + 1 if pending is None else pending.number)
        elif refused is None:
            count_arrival(self, route, queues, charge)
        else:
            count_refused(self)
        if confirmed:
            withholding = NO_GATES if self.prompt else closed
            self.confirm(pending, withholding, refusal, route.queues)
            for gate in withholding:
                self.count_withheld(gate, charge)
            if self.broker.hold_events is not None and withholding and refusal is None:
                number = self.confirms.published if pending is None else pending.number
                begin_withheld(self, route, queues, content, number, withholding[0])
        return refusal

    def refuse_at(self, queue: Queue, route: Route, content: bytes, charge: i64, confirmed: bool) -> Refusal:
        """Handle a message that a queue's overflow policy refused, or that a lowered capacity can never fit."""
        policy = queue.refusing(content, self.broker.now)
        refusal = Refusal(DELETED if queue.deleted else policy.name, queue.gate)
        self.count_refused(queue.gate, refusal.cause, charge)
        if queue.deleted:
            return refusal
        if policy is queue.overflow and admission.must_wait(queue, charge):
            never = admission.never_fits_error(f"queue '{queue.name}'", charge, queue.thresholds.capacity)
            refusal = Refusal(NEVER_FITS, queue.gate, error=never)
            if not confirmed:
                self._close_for(never)
        if policy.returns_refused and route.mandatory and not confirmed:
            self.broker.emit_returned(self, route, content, admission.refusal_error(queue))
        if policy.destroys:
            refusal = Refusal(policy.name, queue.gate, queue.describe_overflow())
            self.broker.delete_queue(queue)
        return refusal

    def _close_for(self, error: BrokerError) -> None:
        if self.state is ProducerState.LINGERING:
            self.broker.emit_close_session(self, error)  # The error is logged, though no client is connected.
        else:
            self.close(error)

    def confirm(
        self, pending: PendingConfirm | None, closed: list[Gate], refusal: Refusal | None, queues: list[Queue]
    ) -> None:
        """Handle the confirm of a message enqueued behind the `closed` gates, or refused by a queue, or of a block."""
        withheld = self.confirms
        if refusal is not None:
            withheld.refuse(withheld.hold(NEVER) if pending is None else pending, refusal)
        elif pending is not None:
            withheld.accepted(pending, closed)
        elif closed or withheld.pending:
            deadline = self.deadline_of(queues)
            withheld.withhold(closed, deadline)
            self.wake_at(deadline)
        else:
            withheld.published += 1
        self._update_fast_path()
        if not self.fast_path and len(closed) == 1 and len(queues) == 1 and closed[0] is queues[0].gate:
            self._begin_withheld_run(queues[0])
        self.schedule_confirms()

    def _begin_withheld_run(self, queue: Queue) -> None:
        """Begin a run: further publishes in this turn may skip the checks of the last publish."""
        last = self.confirms.pending[-1] if self.confirms.pending else None
        traced = self.broker.hold_events is not None
        if last is not None and last.state == WITHHELD and self.is_ordinary() and not self.own and not traced:
            self.withheld_run = WithheldRun(queue, last, self.entry(queue.gate), self.broker.now)

    # The store

    def await_disk(self, number: i64) -> None:
        """Delay the confirms from a publish on until the open journal group is on disk."""
        journal = self.broker.journal
        if journal is None or self._awaited is journal.open:
            return
        if not self.unflushed:
            self.confirms.durable_upto = number - 1
        self._awaited = journal.open
        if self.unflushed is NONE_UNFLUSHED:
            self.unflushed = deque()
        self.unflushed.append(UnflushedConfirm(number, journal.open))
        if self.lane is not None:
            self.lane.join(journal.open)
        journal.wait(self)

    @override
    def on_durable(self, group: JournalGroup) -> None:
        unwritten = self.unflushed
        if unwritten and unwritten[0].group is group:
            unwritten.popleft()
            if not unwritten:
                self._awaited = None  # The group may be large.
            self.confirms.durable_upto = unwritten[0].number - 1 if unwritten else UNLIMITED
            self.schedule_confirms()

    def deadline_of(self, queues: list[Queue]) -> float:
        """Return the deadline of a publish held for these queues: monotonic seconds."""
        if not queues and self.outbox:
            return self.outbox[len(self.outbox) - 1].deadline  # It waits only for earlier publishes.
        return self.broker.now + admission.hold_deadline_s(queues)

    # Waiting (Waiter)

    @override
    def on_passed(self, held: Held, now: float) -> None:
        if not held.is_awaited():
            if self.standstill is not None:
                self.standstill.passed(now)
            self.hold_budget.count_drained(held.budgeted(), admission.hold_deadline_s(held.queues), now)

    def will_return_soon(self) -> bool:
        """Return whether all publishes wait for confirms."""
        return self.confirming and self.state is ProducerState.OPEN and not self.confirms.pending

    def expire(self, now: float) -> float:
        """Confirm withheld publishes and refuse held publishes at their deadline; returns the next deadline."""
        soon = now + CLOSE_ENOUGH_S
        self.count_late(self.confirms.expire(soon))
        look_at = self._postpone(soon)
        due = due_at(self.outbox, soon)
        if due:
            self._refuse_held(due, now)
        self.mark_stops()
        self.after_release(now)
        return min(self._earliest(), self.confirms.due(), look_at if self.outbox else NEVER)

    def _postpone(self, now: float) -> float:
        """Postpone the deadlines of publishes without confirms by recent progress; return when to check again."""
        standstill = self.standstill
        if standstill is None:
            return NEVER
        if not self.outbox:
            standstill.end()
            return NEVER
        standstill.look(self.gate, admission.hold_deadline_s(self.outbox[0].queues), now)
        if standstill.moved_at == -NEVER:
            return standstill.look_at
        self.broker.work.count(len(self.outbox) // COMPARED_A_UNIT)
        queues: list[Queue] | None = None
        deadline = NEVER
        for held in self.outbox:
            if not held.is_awaited():
                if held.queues is not queues:
                    queues = held.queues
                    deadline = standstill.moved_at + admission.hold_deadline_s(queues)
                if held.deadline < deadline:
                    held.deadline = deadline
        return standstill.look_at

    @override
    def _gate_of_credit(self) -> Gate | None:
        return None if self.credit is None or self.credit.credit > 0 else self.credit.gate

    def after_release(self, now: float) -> None:
        """Schedule confirms after a release, and update whether the producer is still blocked."""
        obstacle = self.confirms.release()
        if obstacle is not None:
            self.mark_withheld(obstacle)  # The gate may have opened and closed again since the message was enqueued.
        super().after_release(now)
        self._update_fast_path()
        self.schedule_confirms()
        if self.credit is not None and not self.outbox:
            self.credit.schedule_review()  # No more is granted while a publish is held.
        if self.state is ProducerState.LINGERING and not self.outbox:
            self.abort()

    # Refusing

    def _refuse_new(self, route: Route, why: str, content: bytes, charge: i64) -> None:
        why = f"{why}; {admission.refusal_reason(route.queues, self.gate)}"
        self.broker.work.done += len(route.queues) // SUMMED_A_UNIT
        for queue in reported(route.queues):
            self.broker.work.done += REPORT_WORK
            self.count_refused(queue.gate, HOLD_BOUND, charge, why)
        if self.confirming:
            refusal = Refusal(HOLD_BOUND, self.gate, f"refused: {why}", retriable=True)
            self.give_back(route, content, refusal.describe())
            self.confirms.refuse(self.confirms.hold(NEVER), refusal)
            self.disable_fast_path()
            self.after_release(self.broker.now)
        else:
            text = f"publish to {admission.describe_target(route)} refused: {why}"
            self.close(ResourceError(lost_with(self.unconfirmed_held() + 1, text)))

    def _refuse_held(self, due: list[Held], now: float) -> None:
        """Refuse publishes at their deadline. The refusal of a publish without a confirm closes the session, and all
        held publishes are dropped.
        """
        closing = [held for held in due if held.closes_session()]
        self.broker.work.count(REFUSAL_WORK * len(self.outbox if closing else due))
        why = (closing or due)[0].deadline_message(self.own, now)
        lost = self.unconfirmed_held() if closing else 0
        late = {id(held) for held in due}
        self.broker.work.count(count_dropped(self, list(self.outbox) if closing else due, DEADLINE, why))
        remaining: deque[Held] = deque()
        dropped = Refusal(DEADLINE, self.gate, f"dropped, because its session closes: {why}", retriable=True)
        refusal, queues = dropped, due[0].queues
        for held in self.outbox:
            is_late = id(held) in late
            if not closing and not is_late:
                remaining.append(held)
                continue
            if is_late and not held.closes_session():
                held.return_to_publisher(self.own, now)
            if is_late and held.pending is not None and (refusal is dropped or held.queues is not queues):
                queues = held.queues  # Neighbours for the same queues have the same reason.
                refusal = Refusal(DEADLINE, self.gate, held.deadline_reason(self.own, now), retriable=True)
            if held.pending is not None:
                self.confirms.refuse(held.pending, refusal if is_late else dropped)
        changed = not remaining or remaining[0] is not self.outbox[0]
        self.outbox = remaining
        kept = [] if closing else [held for held in due if held.keeps()]
        if kept:
            kept[0].reopen(kept)
        if changed:
            self.rejoin_line(now)
        if self.state is ProducerState.LINGERING and self.loss is not None:
            self.loss.why = why
        elif closing:
            self.close(ResourceError(lost_with(lost, why)))

    def unconfirmed_held(self) -> i64:
        """Return how many held publishes have no confirm: they are lost if the session closes."""
        count: i64 = 0
        for held in self.outbox:
            if not held.is_awaited():
                count += held.messages
        return count

    def give_back(self, route: Route, content: bytes, why: str) -> None:
        """Return a mandatory message to the client, with the reason that a nack cannot carry."""
        if route.mandatory:
            self.broker.emit_returned(self, route, content, ResourceError(why))

    def close(self, error: BrokerError) -> None:
        """Close the session with an error for the client."""
        self.state = PRODUCER_STATES.move(self.state, ProducerState.CLOSING)
        self.closing = error
        self.disable_fast_path()
        self.broker.emit_close_session(self, error)

    def fail(self, error: BrokerError) -> None:
        """Close the session and drop all held publishes."""
        while self.outbox:
            end_hold(self, self.pop_held(), ENDED, str(error))
        self.rejoin_line(self.broker.now)
        self.close(error)

    def schedule_confirms(self) -> None:
        """Add the producer to the broker's list if it has confirms to send."""
        if not self.scheduled and self.confirms.ready():
            self.broker.schedule_confirms(self)

    # Closing

    def close_gracefully(self) -> None:
        """Close the producer after a normal close of the session; see held.py for its held publishes.

        If the broker was about to close the session with an error, held publishes are dropped.
        """
        if self.credit is not None:
            self.credit.close()
        if self.transaction is not None:
            self.transaction.end()
        drop_unconfirmed(self)
        if self.state is ProducerState.OPEN and self.outbox and self.broker.closed_session_budget.adopt(self):
            self.state = PRODUCER_STATES.move(self.state, ProducerState.LINGERING)
        else:
            self.abort()

    def abort(self, cause: str = ENDED) -> None:
        """Remove the producer from all gates: held publishes are dropped for this cause, enqueued messages stay.

        Repeated calls have no effect.
        """
        if self.state is ProducerState.CLOSED:
            return
        now = self.broker.now
        self.state = PRODUCER_STATES.move(self.state, ProducerState.CLOSED)
        self.confirming = False
        events = self.broker.hold_events
        if events is not None:
            events.append(ProducerEnded(self, now))
        if self.credit is not None:
            self.credit.close()
        if self.transaction is not None:
            self.transaction.end()
        drop_held(self, 0, cause)
        if self.lane is not None:
            self.broker.producer_lanes.leave(self.lane)
        place = self.gate
        self.leave_gates(now)
        self.ticket = 0
        self._drop_deadline()
        self.broker.turns.ended.append(self)
        if self.origin is not None:
            self.origin.part(self)
        if place is not None:
            place.review(now)
        if self.broker.closed_session_budget.part(self) or self.loss is not None:
            self.broker.emit_departed(self)


def lost_with(count: i64, why: str) -> str:
    """Return the reason of a close that loses so many publishes without confirms; a count of 0 stands for a commit."""
    if count == 0:
        return why
    return f"1 publish is lost: {why}" if count == 1 else f"{int(count):,} publishes are lost: {why}"


def publish_at_once(producer: Producer, route: Route, content: bytes, charge: i64) -> bool:
    """Handle a publish by the fast path; return whether that was possible. A publish on credit uses its own room where
    others wait.

    This is a function because a call of a method is indirect: producers have interpreted subclasses.
    """
    if not producer.fast_path:
        return False
    broker = producer.broker
    queue = route.single_queue
    storage: QueueStorage | None = None
    if queue is None:
        queue = route.stored_queue
        if queue is None:
            return False
        storage = queue.storage
        if storage is None or not storage.vhost_usage.all_open:
            return False
    sequence: i64 = 0
    if not broker.turns.pending:
        sequence = queue.take_place(charge)
    if sequence == 0 and producer.credit is not None:
        sequence = producer.credit.reservation.take_place(queue, charge)
    if sequence == 0:
        return False
    if storage is not None:
        message = StoredMessage(route.envelope, content, charge, sequence, broker.now)
        route.append(message)
        storage.add(message)
        producer.has_stored = True
        if producer.confirming and producer._awaited is not storage.journal.open:
            producer.await_disk(producer.confirms.published + 1)
    else:
        route.append(Message(route.envelope, content, charge, sequence, broker.now))
    route.counters.published += 1
    producer.accepted_messages += 1
    producer.accepted_bytes += charge
    if sequence >= queue.counters.next_sample:
        queue.counters.sample(producer.name, route.envelope.exchange, charge, sequence)
    if not queue.scheduled:
        broker.schedule_delivery(queue)
    if producer.confirming:
        producer.confirms.published += 1
        if storage is None and not producer.scheduled:
            broker.schedule_confirms(producer)
    return True
