"""A party that puts messages into queues and may have to wait for it: its outbox, its place in line, its deadlines.

Only the first of the outbox waits at a gate; the others wait behind it, so the order is kept. Who sends is a client's
channel (Producer), or a queue whose messages died (DeadLetters).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from penstock.core.publish.blockable import Blockable
from penstock.core.publish.held import Held, HoldBudget
from penstock.core.queue.queue import Queue
from penstock.errors import BrokerError
from penstock.flow.gate import Gate
from penstock.flow.timers import TimerHandler

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
class WaitingPublisher(Blockable):
    """What its kinds have in common; they say what becomes of what passes, and of what is too late."""

    def __init__(self, broker: Broker, name: str, holding: HoldBudget) -> None:
        super().__init__(broker, name)
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

    def obstacle(self) -> Gate | None:
        """See `Waiter.obstacle`."""
        return self.outbox[0].first_closed_gate(self.own, self.broker.now)

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


def look_again(gate: Gate, queue: Queue, now: float) -> None:
    """Whoever waits at a gate because of a queue looks at its road again: the gate stands on it no more."""
    for _, _, waiter in list(gate.waiters):
        if isinstance(waiter, WaitingPublisher):
            waiter.on_queue_deleted(queue, now)
