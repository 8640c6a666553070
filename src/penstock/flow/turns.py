"""Turns of waiting producers: start-time fair queueing by bytes over all gates of the broker.

Theory of operation. A waiter waits at exactly one gate: the first one on its road that does not let it pass. It holds a
ticket, and keeps the ticket from gate to gate until it has passed. An open gate with waiters is *scheduled* by the
ticket of its first waiter. A turn takes the first waiter of the first scheduled gate and checks its whole road again,
because a wake-up is only a hint. The waiter passes one message, or moves to the gate that stops it now.

Tickets are positions on a scale of bytes (virtual time, as in fair queueing; decision 12). A new waiter draws the
position of the clock. A waiter with more messages after its turn continues further on, by the message's charge divided
by its weight. So equal messages alternate, a large message counts as many small ones, and no memory of earlier rounds
is needed. The clock advances with each message by the share of one waiter at that gate: however many newcomers come,
those further on are reached. Among the waiters that could pass, none gets ahead of another by more than twice the
largest message.

A producer with a small window of confirms has nothing left after its turn until the confirm arrives; it returns within
a round trip. Meanwhile producers with more messages would take its share of the room. If its next ticket comes first,
the gate waits for it: five milliseconds at most, and only while no consumer behind the gate runs dry. It then continues
where it left off, not at the present clock (decision 20). Where links wait for credit, so does one whose confirms were
withheld until the gate opened.

A gate that closes in the middle of a round lets the remaining waiters of that round pass, as far as there is room. They
are treated as newcomers between stop and capacity. So no waiter is left out where little fits between resume and stop.

Gates are scheduled, not waiters, because an opened gate wakes no one by itself. Waiters are checked one by one for as
long as the gate stays open, so the work is proportional to the messages that pass, not to the waiters.

The first waiter of an open gate may not fit yet: its message is larger than the room. Then the gate is unscheduled
until its depth has gone down, unless room is only reserved: what lies idle of that is taken back at once. The others
stay behind that waiter, or the largest messages would starve.
"""

from __future__ import annotations

import heapq
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.flow.chores import UNITS_A_TURN, Chores
from penstock.flow.flow_totals import FlowTotals
from penstock.flow.gate import Gate, GateOwner, GateTransition, Waiter
from penstock.flow.reserved_room import Party
from penstock.flow.timers import NEVER, TimerHandler, Timers
from penstock.flow.work import WorkMeter

SCALE: Final = 64
"""Units of a ticket for each byte, so that fractions of a byte count."""


PARTIES_HEARD: Final = 16
"""Most waiting publishes whose connections get a share of reserved room at once; others follow when they are first."""
RECALL_WORK: Final = 200
"""Units of work of a recall, which may revoke the credit of many links."""
RETURN_GRACE_S: Final = 0.005
"""Seconds that a returning producer is waited for: one or two round trips with a busy client in Python."""


class _GateTimer(TimerHandler):
    """The timer of a gate whose next turn waits for a returning producer, or for the next recall of idle room."""

    def __init__(self, turns: Turns, gate: Gate) -> None:
        super().__init__()
        self.turns = turns
        self.gate = gate

    def on_deadline(self, now: float) -> float:
        if self.gate.open:
            self.turns.schedule(self.gate)
        return NEVER


@mypyc_attr(allow_interpreted_subclasses=True)
class Turns:
    """The turns of all waiting producers of the broker."""

    def __init__(self, deadlines: Timers | None = None, meter: WorkMeter | None = None) -> None:
        self.timers = Timers() if deadlines is None else deadlines
        self._meter = WorkMeter() if meter is None else meter
        self.chores = Chores(self._meter)
        """Background work in slices, run turn by turn."""
        self.totals = FlowTotals()
        """Totals of all gates since the start."""
        self._scheduled: Final[list[tuple[i64, i64, Gate]]] = []
        self._drawn: i64 = 0
        self._clock: i64 = 1
        """Position that a newcomer draws."""
        self._floor: i64 = 1
        """Position of the last turn; never decreases."""
        self.pending: bool = False
        """True if a waiter may have a turn now."""
        self.transitions: list[GateTransition] = []
        """Gates that closed or opened since the broker last took the list, in order."""
        self.ended: list[object] = []
        """Queues, producers, sessions and gates that have ended since the list was last taken (core/unlinking.py)."""

    def wait(self, waiter: Waiter, gate: Gate, now: float) -> None:
        """Put a waiter in the line of a gate; it keeps its ticket, or draws one."""
        if waiter.ticket == 0:
            position = self._floor if now <= waiter.back_by else self._clock
            waiter.ticket = waiter.finish if waiter.finish > position else position
            self._number(waiter)
        gate.enter(waiter)
        waiter.waits_at(gate, now)
        gate.review(now)
        if gate.open:
            self.schedule(gate)

    def schedule(self, gate: Gate) -> None:
        """Schedule an open gate that has waiters; does nothing if it is scheduled already."""
        if gate.scheduled:
            return
        first = gate.next_entry()
        if first is None:
            return
        gate.scheduled = True
        heapq.heappush(self._scheduled, (first[0], first[1], gate))
        self.pending = True

    def run(self, turns: int, now: float) -> int:
        """Give up to `turns` turns, of `UNITS_A_TURN` units of work together; returns how many messages passed."""
        passed = 0
        meter = self._meter
        end = meter.done + UNITS_A_TURN
        while turns > 0 and self._scheduled and meter.done < end:
            turns -= 1
            gate = heapq.heappop(self._scheduled)[2]
            gate.scheduled = False
            first = self._next_entry(gate)
            if first is not None and self._turn(gate, first, now):
                passed += 1
        self.pending = bool(self._scheduled)
        return passed

    def _turn(self, gate: Gate, first: tuple[i64, i64, Waiter], now: float) -> bool:
        if gate.returning and self._is_expected(gate, first[0], now):
            return False
        waiter = first[2]
        obstacle = waiter.obstacle(None if gate.open else gate)
        if obstacle is gate:
            if gate.open and gate.owner is not None:
                self._recall(gate, gate.owner, now)
            return False  # No room for the first yet; its owner schedules the gate again when there is more.
        others: i64 = gate.in_line()
        gate.leave(waiter)
        gate.review(now)
        if obstacle is None:
            self._pass(waiter, gate, others, now)
        else:
            self.wait(waiter, obstacle, now)
        if self._next_entry(gate) is not None:
            self.schedule(gate)
        return obstacle is None

    def _recall(self, gate: Gate, owner: GateOwner, now: float) -> None:
        """Take back room that is only reserved, and look again at once or soon while there is some."""
        parties: list[Party] = []
        for entry in gate.waiters[:PARTIES_HEARD] or gate.requests[:1]:
            party = entry[2].party
            if party is not None:
                parties.append(party)
        again = owner.recall(parties, now)
        if again <= now:
            self._meter.done += RECALL_WORK
            self.schedule(gate)
        elif again != NEVER:
            self._schedule_later(gate, again)

    def expect_back(self, waiter: Waiter, gate: Gate, passed: i64, now: float) -> None:
        """Wait a moment for a producer whose confirms this gate withheld until now, before links get credit.

        It was stopped and not idle, and one turn of a link may take much of the room. `passed`: the bytes that it
        passed meanwhile, which count as turns.
        """
        is_overtaken = gate.requests or (gate.waiters and waiter.on_credit)
        if is_overtaken and waiter.gate is None and waiter.will_return_soon():
            if waiter.finish < self._floor:
                waiter.finish = self._floor
            self._expect(waiter, gate, passed, now)

    def pass_on_credit(self, waiter: Waiter, gate: Gate, size: i64, now: float) -> None:
        """Count messages on credit of a producer that is waited for as its turns, and wait for more of them."""
        if now <= waiter.back_by:
            self._expect(waiter, gate, size, now)

    def _expect(self, waiter: Waiter, gate: Gate, passed: i64, now: float) -> None:
        waiter.finish += passed * SCALE // waiter.weight
        waiter.back_by = now + RETURN_GRACE_S
        self._number(waiter)
        _forget_returned(gate.returning, now)  # Those before it, its own earlier position included.
        heapq.heappush(gate.returning, (waiter.finish, waiter.back_by, waiter.serial, waiter))

    def _next_entry(self, gate: Gate) -> tuple[i64, i64, Waiter] | None:
        """Return the waiter that may have a turn: the gate is open, or its round is not finished; None for none."""
        first = gate.next_entry()
        return first if first is None or gate.open or first[0] <= gate.closed_at_ticket else None

    def _is_expected(self, gate: Gate, ticket: i64, now: float) -> bool:
        """Return whether the next turn belongs to a producer that is about to return; sets the timer if so."""
        returning = gate.returning
        _forget_returned(returning, now)
        if not returning or returning[0][0] >= ticket or gate.owner is None or not gate.owner.may_defer_turn():
            return False
        self._schedule_later(gate, returning[0][1])
        return True

    def _schedule_later(self, gate: Gate, when: float) -> None:
        """Schedule a gate at a time (monotonic seconds), or earlier."""
        timer = gate.timer
        if timer is None:
            timer = _GateTimer(self, gate)
            gate.timer = timer
        self.timers.add(timer, when)

    def _pass(self, waiter: Waiter, gate: Gate, others: i64, now: float) -> None:
        """Let one message pass and queue its producer again. `others`: waiters at the gate, this one included."""
        if waiter.ticket > self._floor:
            self._floor = waiter.ticket
        was_open = gate.open
        cost = waiter.take_turn(now) * SCALE
        if was_open and not gate.open:
            gate.closed_at_ticket = self._floor
        waiter.finish = self._floor + cost // waiter.weight
        clock = self._clock + cost // others
        if clock > self._floor + cost:
            # Many gates with few waiters each would otherwise advance the clock past those that wait.
            clock = self._floor + cost
        if clock < self._floor:
            clock = self._floor
        if clock > self._clock:
            self._clock = clock
        following = waiter.next_gate()
        waiter.ticket = 0
        if following is None:
            if waiter.will_return_soon():
                waiter.back_by = now + RETURN_GRACE_S  # The last one at the gate keeps its position too.
                if others > 1:
                    heapq.heappush(gate.returning, (waiter.finish, waiter.back_by, waiter.serial, waiter))
        else:
            waiter.ticket = waiter.finish
            self._number(waiter)
            self.wait(waiter, following, now)

    def _number(self, waiter: Waiter) -> None:
        self._drawn += 1
        waiter.serial = self._drawn


def _forget_returned(returning: list[tuple[i64, float, i64, Waiter]], now: float) -> None:
    """Remove the first ones as long as they have returned, or their time is up."""
    while returning and (
        returning[0][1] <= now or returning[0][3].gate is not None or returning[0][3].finish != returning[0][0]
    ):
        heapq.heappop(returning)
