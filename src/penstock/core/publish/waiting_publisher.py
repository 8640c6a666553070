"""A publisher that may have to wait: its outbox, its position in line, its deadlines and its gates.

Only the first entry of the outbox waits at a gate; the others wait behind it, so the order is kept. The publisher is a
client's channel (Producer), or a queue with dead letters (DeadLetterPublisher).
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.journal.write_shares import WriteShare
from penstock.core.publish.admission import hold_deadline_s, is_excused
from penstock.core.publish.context import PublishContext
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.outbox import Held, HoldEvent
from penstock.core.publish.producer_listener import NO_CLIENT, ProducerListener
from penstock.core.queue.cursor_state import PinnedRoom
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.errors import BrokerError
from penstock.flow.confirms import PendingConfirm
from penstock.flow.gate import Gate, Waiter
from penstock.flow.gate_stats import BlockStats
from penstock.flow.reserved_room import Party
from penstock.flow.series import Tally
from penstock.flow.states import StateTable
from penstock.flow.timers import CLOSE_ENOUGH_S, TimerHandler

NOTHING_HELD: Final[deque[Held]] = deque(maxlen=0)
"""Shared empty outbox of publishers that never held a publish: most never do, and an empty deque takes 640 bytes."""
REJOIN_WORK: Final = 4
"""Units of work to take a publisher out of a line and check where it must wait now."""
COMPARED_A_UNIT: Final = 32
"""Queues of an entry that are compared with one unit of work."""
REVIEWED_A_UNIT: Final = 16
"""Gates that block a publisher and are reviewed with one unit of work: a fan-out may close thousands."""
REFUSAL_WORK: Final = 2
"""Units of work to refuse a held publish, and to return it."""


class _Deadline(TimerHandler):
    """The deadline timer of a publisher."""

    def __init__(self, sender: WaitingPublisher) -> None:
        super().__init__()
        self.sender = sender

    def on_deadline(self, now: float) -> float:
        return self.sender.expire(now)


@mypyc_attr(allow_interpreted_subclasses=True)
class WaitingPublisher(Waiter):
    """Base of publishers with an outbox; subclasses handle passed and expired entries."""

    def __init__(
        self,
        broker: PublishContext,
        name: str,
        holding: HoldBudget,
        listener: ProducerListener = NO_CLIENT,
        party: Party | None = None,
    ) -> None:
        super().__init__(party)
        self.broker = broker
        self.name = name
        """Name for logs: connection, channel and client."""
        self.listener = listener
        """The client of the publisher."""
        self.created_at: float = broker.now
        """Time of the creation: monotonic seconds."""
        self.gates: dict[int, Gate] = {}
        """Gates that block the publisher, by identity."""
        self._books: dict[int, Gate] = {}
        """Gates with statistics about the publisher."""
        self._withheld_by: Gate | None = None
        """The gate that withholds the last confirm and will release it."""
        self._entry_of: Gate | None = None
        """The gate of the last statistics entry, and that entry: consecutive messages meet the same gate."""
        self._entry: BlockStats | None = None
        self.writes: WriteShare | None = None
        """The connection's share of store writes; None for publishers without a connection."""
        self.hold_budget = holding
        """The limit of the outbox, shared with others of the connection."""
        self.outbox: deque[Held] = NOTHING_HELD
        self.own: list[Gate] = []
        """Gates on the road of all messages: of the user, the connection and the publisher itself."""
        self.stopped_exchange: str | None = None
        """Exchange of the last publish that met a closed gate; None before the first."""
        self.closing: BrokerError | None = None
        """The error that closes the session; None while it is open."""
        self._deadline: _Deadline | None = None
        """The deadline timer; None before the publisher has held or withheld anything."""
        self.accepted_messages: i64 = 0
        self.accepted_bytes: i64 = 0
        """Messages put into queues, and their bytes (charges)."""
        self.sampled_messages: i64 = 0
        self.sampled_bytes: i64 = 0
        """The same sums at the last round of the flow log."""
        self.rest: Tally | None = None
        """Publishes that were handled and are in no queue; None before the first."""

    def wait_in_line(self, held: Held, obstacle: Gate | None) -> None:
        """Append an entry to the outbox; `obstacle` is its gate, if no entry is before it."""
        gate = self.gate if self.outbox else obstacle
        if self.outbox is NOTHING_HELD:
            self.outbox = deque()
        held.since = self.broker.now
        held.gate = gate
        self.outbox.append(held)
        self.wake_at(held.deadline)
        if gate is not None:
            self.count_held(gate, held.charge, held.messages)
            if self.gate is None:
                self.broker.turns.wait(self, gate, self.broker.now)

    # Waiting (Waiter)

    @override
    def waits_at(self, gate: Gate, now: float) -> None:
        self.mark_blocked(gate)
        if not gate.open and len(self.gates) > 1:  # At an open gate it passes soon, and may return to another gate.
            self._review_gates(gate, now)

    @override
    def obstacle(self, finishing: Gate | None = None) -> Gate | None:
        return self.outbox[0].first_closed_gate(self.own, self.broker.now, finishing)

    @override
    def next_gate(self) -> Gate | None:
        while self.outbox and self.closing is None:
            obstacle = self.obstacle()
            if obstacle is not None:
                return obstacle
            place = self.outbox[0].turn_gate()
            if place is not None:
                return place
            self.take_turn(self.broker.now)  # The message reaches no queue, so it need not wait.
            self.after_release(self.broker.now)
        return None

    @override
    def take_turn(self, now: float) -> i64:
        held = self.pop_held()
        self.on_passed(held, now)
        self.broker.turns.totals.holds.count(now - held.since)
        charge = held.charge  # A block continues with its next row.
        journal = self.broker.journal
        served = None if journal is None else journal.serve(self.writes)
        if self.broker.hold_events is None:
            held.admit()
        else:
            traced = held.traced()
            end_hold(self, traced, held.admit())
        if journal is not None:
            journal.serve(served)
        if self._withheld_by is not None:
            self.entry(self._withheld_by).take_passed()  # This turn counts the message.
        return charge

    def on_passed(self, held: Held, now: float) -> None:
        """Handle that an entry leaves the outbox in its turn."""

    @override
    def release(self, gate: Gate, now: float) -> i64:
        self._withheld_by = None
        passed = self.entry(gate).take_passed()
        if self.gate is not None:
            self.unturned_bytes += passed
        if gate is not self.gate:  # The entry waits there for its turn, and stays blocked until it has passed.
            self.mark_unblocked(gate, now)
        self.after_release(now)
        return passed

    @override
    def on_road_changed(self, left: set[object], now: float) -> i64:
        """See `Waiter.on_road_changed`: only the waiting entry matters, if it is for one of these queues."""
        if not self.outbox:
            return 1
        held = self.outbox[0]
        compared: i64 = len(held.queues) // COMPARED_A_UNIT
        if left.isdisjoint(held.queues):
            return compared + 1
        held.on_road_changed()
        self.rejoin_line(now)
        return compared + REJOIN_WORK

    def rejoin_line(self, now: float) -> None:
        """Replace a removed entry by the next one in line, if any."""
        self.broker.work.count(REJOIN_WORK)
        place = self.gate
        if place is not None:
            place.leave(self)
            place.review(now)
        ahead = self.next_gate()
        if ahead is None:
            self.ticket = 0
        else:
            self.broker.turns.wait(self, ahead, now)

    def expire(self, now: float) -> float:
        """Handle all deadlines up to `now` (monotonic seconds); returns the next deadline."""
        raise NotImplementedError

    def wake_at(self, when: float) -> None:
        """Set the deadline timer to this time (monotonic seconds) or earlier."""
        deadline = self._deadline
        if deadline is None:
            deadline = _Deadline(self)
            self._deadline = deadline
        self.broker.timers.add(deadline, when)

    def _drop_deadline(self) -> None:
        """Remove the deadline timer."""
        if self._deadline is not None:
            self.broker.timers.drop(self._deadline)
            self._deadline = None

    def _earliest(self) -> float:
        """Return the earliest deadline in the outbox, infinity without one."""
        earliest = float("inf")
        for held in self.outbox:
            if held.deadline < earliest:
                earliest = held.deadline
        return earliest

    def pop_held(self) -> Held:
        """Remove and return the first entry of the outbox."""
        held = self.outbox.popleft()
        self.hold_budget.release(held.budgeted(), held.messages)
        return held

    @override
    def after_release(self, now: float) -> None:
        self.update_blocked(now)

    def update_blocked(self, now: float) -> None:
        """Update whether the publisher is still blocked: an open gate blocks only waiters in its line.

        A gate that has just opened, and has yet to release the publisher, is left to `release`: confirms may wait for
        that.
        """
        if not self.outbox:
            self._review_gates(None, now)

    def _review_gates(self, place: Gate | None, now: float) -> None:
        """Update the set of gates that block the publisher, except the gate where it waits in line (`place`)."""
        self.broker.work.count(len(self.gates) // REVIEWED_A_UNIT)
        for gate in list(self.gates.values()):
            if not gate.open:
                gate.expect(self)
            elif gate is not place and gate is not self._gate_of_credit() and not gate.expects(self):
                self.mark_unblocked(gate, now)

    def _gate_of_credit(self) -> Gate | None:
        """Return the gate at which the client waits for credit; None if it does not."""
        return None

    # Gates that block the publisher

    def mark_blocked(self, gate: Gate) -> None:
        """Record that a gate blocks the publisher: closed, or with its entry in line; emitted once for each block."""
        gate.block(self)
        if id(gate) not in self.gates:
            self.gates[id(gate)] = gate
            self.entry(gate).begin(self.broker.now)
            self.broker.emit_blocked(self, gate)

    def mark_withheld(self, gate: Gate) -> None:
        """Record that a closed gate blocks the publisher until it opens, usually because it withholds a confirm."""
        if gate is not self._withheld_by:
            self.mark_blocked(gate)
            gate.expect(self)
            self._withheld_by = gate

    def mark_unblocked(self, gate: Gate, now: float) -> None:
        """Record that a gate no longer blocks the publisher."""
        self._withheld_by = None
        gate.unblock(self)
        if self.gates.pop(id(gate), None) is not None:
            entry = self.entry(gate)
            if (
                gate.open
                and not gate.frequent
                and entry.since is not None
                and entry.since <= gate.stats.opened_at <= now
            ):
                self.broker.turns.totals.resume_latency.count(now - gate.stats.opened_at)
            entry.end(now)
            self.broker.emit_unblocked(self, gate)

    def is_stopped_at(self, gate: Gate, hold_deadline_s: float) -> bool:
        """Return whether the publisher has waited a whole hold deadline (seconds) at a gate. See
        `BlockStats.is_stopped`.

        Rates do not count: their gates close with every message, and hold the next messages.
        """
        closed_since = gate.stats.since
        if closed_since is None or gate.frequent:
            return False
        if id(gate) in self.gates:
            return self.entry(gate).is_stopped(closed_since, hold_deadline_s, self.broker.now)
        return self.created_at > closed_since and closed_since + hold_deadline_s <= self.broker.now + CLOSE_ENOUGH_S

    def mark_stops(self) -> None:
        """Emit the gates that stop the publisher now; once for each closing of a gate."""
        for gate in self.gates.values():
            entry = self.entry(gate)
            if entry.stopped_in != gate.stats.transitions and self.is_stopped_at(gate, entry.hold_deadline_s):
                entry.stopped_in = gate.stats.transitions
                entry.stops += 1
                self.broker.emit_stopped(self, gate, entry.hold_deadline_s)

    def entry(self, gate: Gate) -> BlockStats:
        """Return the publisher's entry in the statistics of a gate; creates a missing entry."""
        entry = self._entry
        if entry is None or gate is not self._entry_of:
            self._books[id(gate)] = gate
            entry = gate.stats.entry(id(self), self.name)
            entry.created_at = self.created_at
            self._entry_of = gate
            self._entry = entry
        return entry

    def stories(self) -> list[tuple[Gate, BlockStats]]:
        """Return all gates with statistics about the publisher, and its entries there."""
        return [(gate, gate.stats.entry(id(self), self.name)) for gate in self._books.values()]

    # Statistics; charges are in bytes

    def count_held(self, gate: Gate, charge: i64, messages: i64) -> None:
        """Count held publishes."""
        entry = self.entry(gate)
        entry.held += int(messages)
        entry.held_bytes += int(charge)

    def count_withheld(self, gate: Gate, charge: i64) -> None:
        """Count an accepted message whose confirm is withheld."""
        entry = self.entry(gate)
        entry.withheld += 1
        entry.withheld_bytes += int(charge)

    def count_refused(self, gate: Gate, cause: str, charge: i64, why: str = "", messages: i64 = 1) -> None:
        """Count refused publishes with the sum of their charges, and emit the refusal; see `PublishRefused` for the
        causes.
        """
        entry = self.entry(gate)
        entry.refused += int(messages)
        entry.refused_bytes += int(charge)
        self.broker.emit_publish_refused(self, gate, cause, charge, why, messages)

    def count_late(self, late: list[PendingConfirm]) -> None:
        """Count confirms sent at their deadline, each at the first gate that delayed the confirm."""
        counts: dict[int, int] = {}
        gates: list[Gate] = []
        for pending in late:
            gate = pending.obstacle()
            if gate is not None:
                if id(gate) not in counts:
                    gates.append(gate)
                counts[id(gate)] = counts.get(id(gate), 0) + pending.publishes()
        for gate in gates:
            self.entry(gate).late += counts[id(gate)]
            self.broker.emit_confirmed_late(self, gate, counts[id(gate)])

    def leave_gates(self, now: float) -> None:
        """Leave all lines and close the publisher's entries, which become summaries."""
        self.broker.turns.forget(self, now)
        if self.gate is not None:
            self.gate.forget(self)
        for gate in list(self._books.values()):
            gate.forget(self)
            gate.stats.depart(id(self), now)
        for gate in list(self.gates.values()):
            self.broker.emit_unblocked(self, gate)
        self._books.clear()
        self._entry = None
        self._entry_of = None
        self._withheld_by = None
        self.gates.clear()


def stopping_gate(
    producer: WaitingPublisher, route: Route, content: bytes, charge: i64, now: float, room: PinnedRoom | None = None
) -> Gate | None:
    """Return the gate that stops a producer's new publish although there is room; None if it passes.

    The room between stop and capacity is for messages in flight when the gate closed. A producer that has waited a
    whole hold deadline at the gate has used its share. If a policy refuses the message at once, the policy applies.
    """
    for gate in route.gates:
        if (
            not gate.open
            and producer.is_stopped_at(gate, hold_deadline_s(route.queues))
            and not is_excused(room, gate, 1, charge)
        ):
            return gate
    for queue in route.queues:
        size = queue.bytes + charge
        for gate in queue.gates:
            if (
                not gate.open
                and size > gate.guaranteed_bytes
                and producer.is_stopped_at(gate, hold_deadline_s(route.queues))
                and not is_excused(room, gate, len(route.queues), charge * len(route.queues))
            ):
                if queue.takes(content, charge, now):
                    return gate
    return None


def count_arrival(sender: WaitingPublisher, route: Route, queues: list[Queue], charge: i64) -> None:
    """Count a message that a publisher has put into queues of a route, and sample it there if a sample is due."""
    sender.accepted_messages += 1
    sender.accepted_bytes += charge
    for queue in queues:
        if queue.tail >= queue.counters.next_sample:
            queue.counters.sample(sender.name, route.envelope.exchange, charge, queue.tail)


class HoldEnd(HoldEvent):
    """A held publish, dead letter, row of a block or commit is not held any more."""

    def __init__(self, producer: WaitingPublisher, held: Held, cause: str, why: str, now: float) -> None:
        super().__init__(now)
        self.producer = producer
        self.held = held
        self.cause = cause
        """The cause if it was refused or dropped, as in `PublishRefused`; empty if it passed."""
        self.why = why
        """The reason as a sentence, if it is known."""


def end_hold(producer: WaitingPublisher, held: Held, cause: str, why: str = "") -> None:
    """Record the end of a hold, while holds are traced; see `HoldEnd`."""
    events = producer.broker.hold_events
    if events is not None:
        events.append(HoldEnd(producer, held.traced(), cause, why, producer.broker.now))


class ProducerState(IntEnum):
    """States of a producer."""

    OPEN = 0
    """Publishes are accepted."""
    CLOSING = 1
    """The broker closes the session with an error (`closing`): no publishes are accepted, and held publishes stay
    held.
    """
    LINGERING = 2
    """The session closed normally: held publishes pass in turn, or reach their deadline."""
    CLOSED = 3
    """The producer is at no gate and holds no publishes."""


PRODUCER_STATES: Final = StateTable(
    "producer",
    ProducerState.OPEN,
    {
        ProducerState.OPEN: {
            ProducerState.CLOSING: "publish refused without a confirm",
            ProducerState.LINGERING: "session closed normally, with held publishes",
            ProducerState.CLOSED: "session ended",
        },
        ProducerState.CLOSING: {
            ProducerState.CLOSING: "another publish refused",
            ProducerState.CLOSED: "session ended",
        },
        ProducerState.LINGERING: {ProducerState.CLOSED: "last held publish decided"},
    },
)


class WithheldRun:
    """One run of one producer; a run ends with the broker's turn, because later publishes have a later deadline."""

    __slots__ = ("queue", "pending", "entry", "now")

    def __init__(self, queue: Queue, pending: PendingConfirm, entry: BlockStats, now: float) -> None:
        self.queue = queue
        self.pending = pending
        self.entry = entry
        """The producer's statistics at the gate."""
        self.now = now
        """The broker's time (monotonic seconds) of the run."""

    def takes(self, queue: Queue | None, charge: i64, broker: PublishContext) -> bool:
        """Return whether one more publish to this queue alone, with this charge in bytes, may join."""
        return (
            queue is self.queue
            and self.queue.messages < self.queue.withheld_max_messages
            and self.queue.bytes + charge <= self.queue.withheld_max_bytes
            and self.now == broker.now
            and not broker.turns.pending
        )

    def join(self, number: i64, charge: i64) -> None:
        """Count one more publish: its number at the producer, and its charge in bytes."""
        self.pending.number = number
        entry = self.entry
        entry.withheld += 1
        entry.withheld_bytes += int(charge)
