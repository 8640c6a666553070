"""A party that puts messages into queues and may have to wait for it: its outbox, its place in line, its deadlines.

Only the first of the outbox waits at a gate; the others wait behind it, so the order is kept. Who sends is a client's
channel (Producer), or a queue whose messages died (DeadLetters).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from penstock.core.publish.held import Held, HoldBudget
from penstock.core.queue.queue import Queue
from penstock.errors import BrokerError
from penstock.flow.confirms import PendingConfirm
from penstock.flow.gate import Gate, Waiter
from penstock.flow.gate_stats import BlockStats
from penstock.flow.timers import CLOSE_ENOUGH_S, TimerHandler

if TYPE_CHECKING:
    from penstock.core.broker import Broker


class _Deadline(TimerHandler):
    """The sender's entry in the broker's one timer."""

    def __init__(self, sender: WaitingPublisher) -> None:
        super().__init__()
        self.sender = sender

    def on_deadline(self, now: float) -> float:
        return self.sender.expire(now)


@mypyc_attr(allow_interpreted_subclasses=True)
class WaitingPublisher(Waiter):
    """What its kinds have in common; they say what becomes of what passes, and of what is too late."""

    def __init__(self, broker: Broker, name: str, holding: HoldBudget) -> None:
        super().__init__()
        self.broker = broker
        self.name = name
        """Who it is, for people: connection, channel and client."""
        self.created_at: float = broker.now
        """When it came: monotonic seconds."""
        self.gates: dict[int, Gate] = {}
        """The gates that it is blocked by, by identity."""
        self._books: dict[int, Gate] = {}
        """The gates that have an entry about it in their books."""
        self._withheld_by: Gate | None = None
        """The gate that withholds something of it and will release it, if that has just been noted."""
        self._entry_of: Gate | None = None
        """The gate whose book was looked into last, and what it says about it: messages meet the same gate in rows."""
        self._entry: BlockStats | None = None
        self.hold_budget = holding
        """What bounds, together with others of its connection, how much waits in the outbox."""
        self.outbox: deque[Held] = deque()
        self.own: list[Gate] = []
        """The gates that all its messages must pass: operator's and rates of its user, its connection and itself."""
        self.closing: BrokerError | None = None
        """Set when nothing more of it is wanted: the reason that its peer is told."""
        self._deadline = _Deadline(self)

    def wait_in_line(self, held: Held, obstacle: Gate | None) -> None:
        """Let something stand at the end of its line; `obstacle` is where, if nothing stands before it."""
        gate = self.gate if self.outbox else obstacle
        self.outbox.append(held)
        self.broker.timers.add(self._deadline, held.deadline)
        if gate is not None:
            self.count_held(gate, held.charge, held.messages)
            if self.gate is None:
                self.broker.turns.wait(self, gate, self.broker.now)

    # Waiting (Waiter)

    def waits_at(self, gate: Gate, now: float) -> None:
        """See `Waiter.waits_at`."""
        self.mark_blocked(gate)

    def obstacle(self, finishing: Gate | None = None) -> Gate | None:
        """See `Waiter.obstacle`."""
        return self.outbox[0].first_closed_gate(self.own, self.broker.now, finishing)

    def next_gate(self) -> Gate | None:
        """See `Waiter.next_gate`."""
        while self.outbox and self.closing is None:
            obstacle = self.obstacle()
            if obstacle is not None:
                return obstacle
            place = self.outbox[0].turn_gate()
            if place is not None:
                return place
            self.take_turn(self.broker.now)  # It reaches no queue: there is nothing to wait for.
        return None

    def take_turn(self, now: float) -> i64:
        """See `Waiter.take_turn`."""
        held = self.pop_held()
        held.admit()
        self.after_release(now)
        return held.charge

    def release(self, gate: Gate, now: float) -> None:
        """See `Waiter.release`."""
        self._withheld_by = None
        if not self.outbox:  # Else it waits for its turn and stays blocked until it has passed.
            self.mark_unblocked(gate, now)
        self.after_release(now)

    def on_queue_deleted(self, queue: Queue, now: float) -> None:
        """A queue was deleted: if what stands in line was to go there, let it look at its road again."""
        if self.outbox and queue in self.outbox[0].queues:
            self.rejoin_line(now)

    def rejoin_line(self, now: float) -> None:
        """What stood in line is gone; the next one stands in its place, or nobody."""
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
        """Do what is due by `now` (monotonic seconds); returns the next deadline."""
        raise NotImplementedError

    def wake_at(self, when: float) -> None:
        """Look at the deadlines at this time (monotonic seconds) at the latest."""
        self.broker.timers.add(self._deadline, when)

    def earliest(self) -> float:
        """Return the earliest deadline of what waits in the outbox, infinity for none."""
        found = float("inf")
        for held in self.outbox:
            if held.deadline < found:
                found = held.deadline
        return found

    def pop_held(self) -> Held:
        """Take the first out of the outbox."""
        held = self.outbox.popleft()
        self.hold_budget.release(held.charge, held.messages)
        return held

    def after_release(self, now: float) -> None:
        """After anything was let go: find out whether it is still blocked."""
        if not self.outbox:
            for gate in list(self.gates.values()):
                if gate.open:
                    self.mark_unblocked(gate, now)
                else:
                    gate.expect(self)

    # Gates that block it

    def blocked(self) -> bool:
        """Return whether a gate on its road is closed, or it waits for its turn."""
        return bool(self.gates)

    def mark_blocked(self, gate: Gate) -> None:
        """It met a closed gate, or stands in the line of one; told once for as long as that lasts."""
        gate.block(self)
        if id(gate) not in self.gates:
            self.gates[id(gate)] = gate
            self.entry(gate).begin(self.broker.now)
            self.broker.emit_blocked(self, gate)

    def mark_withheld(self, gate: Gate) -> None:
        """A gate withholds something of it until it opens."""
        if gate is not self._withheld_by:
            self.mark_blocked(gate)
            gate.expect(self)
            self._withheld_by = gate

    def mark_unblocked(self, gate: Gate, now: float) -> None:
        """A gate does not block it any more."""
        self._withheld_by = None
        gate.unblock(self)
        if self.gates.pop(id(gate), None) is not None:
            self.entry(gate).end(now)
            self.broker.emit_unblocked(self, gate)

    def is_stopped_at(self, gate: Gate, patience_s: float) -> bool:
        """Return whether it has waited a whole hold deadline (seconds) at a gate. See `BlockStats.is_stopped`.

        Rates are left out: their gates close with every message, and hold what comes.
        """
        closed_since = gate.stats.since
        if closed_since is None or gate.frequent:
            return False
        if id(gate) in self.gates:
            return self.entry(gate).is_stopped(closed_since, patience_s, self.broker.now)
        return self.created_at > closed_since and closed_since + patience_s <= self.broker.now + CLOSE_ENOUGH_S

    def mark_stops(self) -> None:
        """Have it told by which gates it is stopped now; once for each time that the gate closes."""
        for gate in self.gates.values():
            entry = self.entry(gate)
            if entry.stopped_in != gate.stats.transitions and self.is_stopped_at(gate, entry.patience_s):
                entry.stopped_in = gate.stats.transitions
                entry.stops += 1
                self.broker.emit_stopped(self, gate, entry.patience_s)

    def entry(self, gate: Gate) -> BlockStats:
        """Return its entry in the book of a gate, made at first use."""
        entry = self._entry
        if entry is None or gate is not self._entry_of:
            self._books[id(gate)] = gate
            entry = gate.stats.entry(id(self), self.name)
            entry.created_at = self.created_at
            self._entry_of = gate
            self._entry = entry
        return entry

    def stories(self) -> list[tuple[Gate, BlockStats]]:
        """Return the gates that have ever blocked it or refused it something, with what their books say about it."""
        return [(gate, gate.stats.entry(id(self), self.name)) for gate in self._books.values()]

    # What the books say about it; charges are in bytes

    def count_held(self, gate: Gate, charge: i64, messages: i64) -> None:
        """Count publishes that have to wait outside."""
        entry = self.entry(gate)
        entry.held += int(messages)
        entry.held_bytes += int(charge)

    def count_withheld(self, gate: Gate, charge: i64) -> None:
        """Count a message that went in behind a closed gate, unconfirmed."""
        entry = self.entry(gate)
        entry.withheld += 1
        entry.withheld_bytes += int(charge)

    def count_refused(self, gate: Gate, cause: str, charge: i64, why: str = "") -> None:
        """Count a publish that did not go in and never will, and have it told; see `PublishRefused` for the causes."""
        entry = self.entry(gate)
        entry.refused += 1
        entry.refused_bytes += int(charge)
        self.broker.emit_publish_refused(self, gate, cause, charge, why)

    def count_late(self, late: list[PendingConfirm]) -> None:
        """Count confirmations that go out at their deadline, each at the first gate that kept it back."""
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
        """It goes away: nothing of it stays in any line, its entries become summaries."""
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


def recheck_roads(gate: Gate, queue: Queue, now: float) -> None:
    """Whoever waits at a gate because of a queue looks at its road again: the gate stands on it no more."""
    for _, _, waiter in list(gate.waiters):
        if isinstance(waiter, WaitingPublisher):
            waiter.on_queue_deleted(queue, now)
