"""Turns of waiting producers: start-time fair queueing by bytes over all gates of the broker.

Theory of operation. A waiter waits at exactly one gate: the first gate on its road that stops it. It holds a ticket,
and keeps the ticket from gate to gate until it has passed. An open gate with waiters is *scheduled* by the ticket of
its first waiter. A turn takes the first waiter of the first scheduled gate and checks its whole road again, because a
wake-up is only a hint that the road may be open. The waiter passes one message, or moves to the gate that stops it now.

Tickets are positions on a scale of bytes (virtual time, as in fair queueing; decision 12). A new waiter draws the
position of the clock. A waiter with more messages after its turn continues further on, by the message's charge divided
by its weight. So equal messages alternate, a large message counts as many small ones, and no memory of earlier rounds
is needed. The clock advances with each message by the share of one waiter at that gate: however many newcomers come,
waiters further on are reached. Among the waiters that could pass, none gets ahead of another by more than twice the
largest message plus the bytes that the other has passed before without a turn.

A producer with a small window of confirms has nothing left after its turn until the confirm arrives; it returns within
a round trip. Meanwhile producers with more messages would take its share of the room. If its next ticket comes first,
the gate waits for it: five milliseconds at most, and only while no consumer behind the gate runs dry. The producer then
continues at its last position, not at the present clock (decision 20). The same holds for a producer whose confirms
were withheld until the gate opened.

Each sender has one position, and its messages count once (decision 111): for a link the grants; for a publisher its
turns, and messages that passed without a turn behind a closed gate or while a gate waited for others. A publisher that
is more than `AHEAD_BYTES` ahead of an awaited producer waits at the open gate.

A gate that closes in the middle of a round lets the remaining waiters of that round pass, as far as there is room. They
are treated as newcomers between stop and capacity. So no waiter starves if few messages fit between resume and stop.

Gates are scheduled, not waiters, because the opening of a gate wakes no waiter. Waiters are checked one by one while
the gate stays open, so the work is proportional to the messages that pass, not to the waiters.

The first waiter of an open gate may not fit yet: its message is larger than the room. Then the gate is unscheduled
until its depth has gone down, unless the missing room is only reserved: then idle reservations are revoked at once. The
other waiters stay behind the first, or the largest messages would starve.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.flow.gate import (
    IDLE,
    LISTED,
    NOBODY_RETURNS,
    RETIRED,
    Gate,
    GateOwner,
    GateTransition,
    Waiter,
    lose_ticket,
    retire,
)
from penstock.flow.gate_stats import FlowTotals
from penstock.flow.reserved_room import Party
from penstock.flow.timers import NEVER, TimerHandler, Timers
from penstock.flow.work import UNITS_A_TURN, Chore, Chores, WorkMeter

SCALE: Final = 64
"""Units of a ticket for each byte, so that fractions of a byte count."""


PARTIES_HEARD: Final = 16
"""Most waiting publishes whose connections get a share of reserved room at once; other connections get theirs when they
are first in line.
"""
RECALL_WORK: Final = 200
"""Units of work of a recall, which may revoke the credit of many links."""
DISMISS_WORK: Final = 12
"""Units of work to answer a held publish for a deleted queue, with its refusal."""
AHEAD_BYTES: Final = 32 * 1024
"""Bytes by which a publish at an open gate may be ahead of producers that the gate waits for."""
CALM_S: Final = 1.0
"""Seconds after the last turn at a gate from which it waits for no producer, if the queue has become short."""
RETURN_GRACE_S: Final = 0.005
"""Seconds for which a gate waits for a returning producer: one or two round trips with a busy client in Python."""


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


class _Dismissals(Chore):
    """Refuses all publishes that wait for a deleted queue.

    The refusals run outside the fair queue, so that 10,000 refusals do not delay live publishers.
    """

    def __init__(self, turns: Turns, meter: WorkMeter) -> None:
        super().__init__()
        self._turns = turns
        self._meter = meter
        self._gates: deque[Gate] = deque()

    def add(self, gate: Gate) -> None:
        self._gates.append(gate)
        self._turns.chores.add(self)

    @override
    def has_more(self) -> bool:
        return len(self._gates) > 0

    @override
    def work(self, most: i64, now: float) -> i64:
        spent: i64 = 0
        end = self._meter.done + most  # A commit counts its own work in the loop.
        while self._meter.done + spent < end and self._gates:
            gate = self._gates[0]
            first = gate.next_in_line()
            if first is None:
                self._gates.popleft()
            else:
                passed = self._turns.dismiss(first, gate, (most - spent) // DISMISS_WORK + 1, now)
                spent += DISMISS_WORK * (passed + 1)
        return spent


class _RoadChecks(Chore):
    """Checks of the roads of waiters at gates that owners, such as queues, have left: all waiters in one pass."""

    def __init__(self, chores: Chores) -> None:
        super().__init__()
        self._chores = chores
        self._left: dict[int, tuple[Gate, set[object]]] = {}
        """Gates, by identity, with the owners that have left them since the last pass."""
        self._gate: Gate | None = None
        self._owners: set[object] = set()
        self._waiters: list[Waiter] = []
        """The present pass: its gate, the owners that have left it, and the waiters still to check."""

    def add(self, gate: Gate, owner: object) -> None:
        """Check all waiters at a gate: the gate is no longer on the road to this owner."""
        if gate.in_line() > 0:
            known = self._left.get(id(gate))
            if known is None:
                known = self._left[id(gate)] = (gate, set())
            known[1].add(owner)
            self._chores.add(self)

    @override
    def has_more(self) -> bool:
        return len(self._waiters) > 0 or len(self._left) > 0

    @override
    def work(self, most: i64, now: float) -> i64:
        spent: i64 = 0
        while spent < most and self.has_more():
            if self._waiters:
                waiter = self._waiters.pop()
                spent += 1  # A waiter that has moved on has checked its road.
                if waiter.gate is self._gate:
                    spent += waiter.on_road_changed(self._owners, now)
            else:
                self._gate, self._owners = self._left.popitem()[1]
                self._waiters = [*self._gate.waiters, *self._gate.requests]
        if not self.has_more():
            self._gate = None
            self._owners = set()
        return spent


@mypyc_attr(allow_interpreted_subclasses=True)
class Turns:
    """The turns of all waiting producers of the broker."""

    def __init__(self, deadlines: Timers | None = None, meter: WorkMeter | None = None) -> None:
        self.timers = Timers() if deadlines is None else deadlines
        self._meter = WorkMeter() if meter is None else meter
        self.chores = Chores(self._meter)
        """Background work in slices, run turn by turn."""
        self._dismissals = _Dismissals(self, self._meter)
        self.roads = _RoadChecks(self.chores)
        self.totals = FlowTotals()
        """Totals of all gates since the start."""
        self._scheduled: Final[list[tuple[i64, i64, Gate]]] = []
        self._drawn: i64 = 0
        self._clock: i64 = 1
        """Position that a newcomer draws."""
        self._floor: i64 = 1
        """Position of the last turn; it never decreases."""
        self._end: i64 = 0
        """Count of work (units) at which the turns of this run end."""
        self.pending: bool = False
        """True if a waiter may have a turn now."""
        self.transitions: list[GateTransition] = []
        """Gates that closed or opened since the broker last took the list, in order."""
        self.ended: list[object] = []
        """Queues, producers, sessions and gates that have ended since the list was last taken; see
        core/unlinking.py.
        """

    def wait(self, waiter: Waiter, gate: Gate, now: float) -> None:
        """Put a waiter in the line of a gate; it keeps its ticket, or draws one."""
        if waiter.ticket == 0:
            waiter.ticket = self._position(waiter, now)
            self._number(waiter)
        gate.enter(waiter)
        waiter.waits_at(gate, now)
        gate.review(now)
        if gate.open:
            self.schedule(gate)

    def schedule(self, gate: Gate) -> None:
        """Schedule an open gate that has waiters; no effect if it is already scheduled."""
        if gate.scheduled == LISTED:
            return
        first = gate.next_in_line()
        if first is None:
            return
        if gate.scheduled == RETIRED:
            self._dismissals.add(gate)
            return
        gate.scheduled = LISTED
        heapq.heappush(self._scheduled, (first.ticket, first.order, gate))
        self.pending = True

    def retire(self, gate: Gate) -> None:
        """Refuse all publishes that wait at the gate of a deleted queue, now or later, out of turn."""
        retire(gate)
        self._dismissals.add(gate)

    def run(self, turns: int, now: float) -> int:
        """Run up to `turns` turns, with `UNITS_A_TURN` units of work together; returns how many messages passed."""
        passed = 0
        meter = self._meter
        self._end = meter.done + UNITS_A_TURN
        while turns > 0 and self._scheduled and meter.done < self._end:
            gate = heapq.heappop(self._scheduled)[2]
            if gate.scheduled == RETIRED:
                continue
            gate.scheduled = IDLE
            first = self._next_in_line(gate)
            messages = 0 if first is None else self._turn(gate, first, turns, now)
            passed += messages
            turns -= messages or 1
        self.pending = bool(self._scheduled)
        return passed

    def _turn(self, gate: Gate, waiter: Waiter, turns: int, now: float) -> int:
        """Run the turn of the first in line, and up to `turns` in a row if nobody else waits; return the messages."""
        if gate.returning and self._is_expected(gate, waiter.ticket, now):
            return 0
        obstacle = waiter.obstacle(None if gate.open else gate)
        if obstacle is gate:
            if gate.open and gate.owner is not None:
                self._recall(gate, gate.owner, now)
            return 0  # No room for the first waiter yet; the owner schedules the gate again when there is more.
        others: i64 = gate.in_line()
        gate.leave(waiter)
        gate.review(now)
        passed = 0
        if obstacle is None:
            passed = self._pass(waiter, gate, others, turns, now)
        else:
            self.wait(waiter, obstacle, now)
        if self._next_in_line(gate) is not None:
            self.schedule(gate)
        return passed

    def dismiss(self, waiter: Waiter, gate: Gate, most: i64, now: float) -> i64:
        """Pass up to `most` messages of the first waiter at a retired gate, out of turn; return how many have
        passed.
        """
        gate.leave(waiter)
        passed: i64 = 0
        following = waiter.next_gate()
        while following is gate and passed < most:
            waiter.take_turn(now)
            passed += 1
            following = waiter.next_gate()
        if passed > 0:
            waiter.after_release(now)
        if following is None:
            lose_ticket(waiter)
        elif following is gate:
            gate.enter(waiter)
        else:
            self.wait(waiter, following, now)
        return passed

    def _recall(self, gate: Gate, owner: GateOwner, now: float) -> None:
        """Revoke room that is only reserved, and check again at once or soon while some is reserved."""
        parties: list[Party] = []
        for waiter in gate.waiters[:PARTIES_HEARD] or gate.requests[:1]:
            if waiter.party is not None:
                parties.append(waiter.party)
        again = owner.recall(parties, now)
        if again <= now:
            self._meter.done += RECALL_WORK
            self.schedule(gate)
        elif again != NEVER:
            self._schedule_later(gate, again)

    def expect_back(self, waiter: Waiter, gate: Gate, passed: i64, now: float) -> None:
        """Wait a moment for a producer whose confirms this gate withheld until now: it was blocked, not idle.

        `passed`: the bytes that it passed meanwhile, which count as turns.
        """
        if waiter.gate is None and waiter.will_return_soon():
            if waiter.finish < self._floor:
                waiter.finish = self._floor
            waiter.finish += passed * SCALE // waiter.weight
            self._expect(waiter, gate, now)

    def expect_more(self, waiter: Waiter, gate: Gate, now: float) -> None:
        """Extend the wait for a waiter, because it has used credit that its last turn counted."""
        if now <= waiter.back_by:
            self._expect(waiter, gate, now)

    def pass_at_once(self, waiter: Waiter, gate: Gate, size: i64, now: float) -> bool:
        """Return whether a publish may pass an open gate that waits for other producers; it counts as a turn then.

        It may not if its producer is ahead of a returning producer by more than `AHEAD_BYTES`.
        """
        may_wait = _may_wait(gate)
        first = _first_returning(gate, now) if may_wait or now <= gate.turned_at + CALM_S else None
        if first is None or (first is waiter and len(gate.returning) == 1):
            forget_returning(gate)
            gate.review(now)
            return True
        position = self._position(waiter, now)
        if position > first.finish + AHEAD_BYTES * SCALE and first is not waiter and may_wait:
            return False
        least = position if position < first.finish else first.finish
        if least > self._floor:
            self._floor = least
            if self._clock < least:
                self._clock = least
        waiter.finish = position + size * SCALE // waiter.weight
        if waiter.will_return_soon():
            self._expect(waiter, gate, now)
        return True

    def _expect(self, waiter: Waiter, gate: Gate, now: float) -> None:
        """Wait for a producer at this gate, unless another gate waits for it already."""
        elsewhere = waiter.expected_at is not None and waiter.expected_at is not gate and now <= waiter.back_by
        waiter.back_by = now + RETURN_GRACE_S
        if waiter.expected_at is gate or elsewhere:
            return
        _first_returning(gate, now)  # Producers that are too late leave the list before it grows.
        waiter.expected_at = gate
        waiter.listed_at = waiter.finish
        self._number(waiter)
        if gate.returning is NOBODY_RETURNS:
            gate.returning = []
        heapq.heappush(gate.returning, (waiter.finish, waiter.serial, waiter))
        if len(gate.returning) == 1:
            gate.review(now)

    def forget(self, waiter: Waiter, now: float) -> None:
        """Stop waiting for a producer that has ended."""
        gate = waiter.expected_at
        if gate is not None:
            waiter.expected_at = None
            if _first_returning(gate, now) is None:
                gate.review(now)
            if gate.timer is not None and gate.in_line() == 0:
                self.timers.drop(gate.timer)

    def _position(self, waiter: Waiter, now: float) -> i64:
        """Return the position of the next turn of a waiter that is not in line."""
        position = self._floor if now <= waiter.back_by else self._clock
        return waiter.finish if waiter.finish > position else position

    def _next_in_line(self, gate: Gate) -> Waiter | None:
        """Return the waiter that may have a turn: the gate is open, or its round is not finished; otherwise None."""
        first = gate.next_in_line()
        return first if first is None or gate.open or first.ticket <= gate.closed_at_ticket else None

    def _is_expected(self, gate: Gate, ticket: i64, now: float) -> bool:
        """Return whether the next turn belongs to a producer that is about to return; sets the timer if so."""
        first = _first_returning(gate, now)
        if first is None or first.finish >= ticket or not _may_wait(gate):
            return False
        self._schedule_later(gate, first.back_by)
        return True

    def _schedule_later(self, gate: Gate, when: float) -> None:
        """Schedule a gate at a time (monotonic seconds), or earlier."""
        timer = gate.timer
        if timer is None:
            timer = _GateTimer(self, gate)
            gate.timer = timer
        self.timers.add(timer, when)

    def _pass(self, waiter: Waiter, gate: Gate, others: i64, turns: int, now: float) -> int:
        """Let a message pass and queue its producer again; return how many passed.

        A waiter that is alone passes up to `turns` messages without going back into the line. `others`: waiters at the
        gate, this one included.
        """
        passed = 1
        self._pass_one(waiter, gate, others, now)
        following = waiter.next_gate()
        while following is gate and passed < turns and others == 1 and self._stays_alone(waiter, gate):
            passed += 1
            self._pass_one(waiter, gate, others, now)
            following = waiter.next_gate()
        waiter.after_release(now)
        if following is None:
            waiter.ticket = 0
            if waiter.will_return_soon():
                waiter.back_by = now + RETURN_GRACE_S  # The last waiter at the gate keeps its index too.
                if others > 1 or gate.returning:
                    self._expect(waiter, gate, now)
        else:
            self._number(waiter)
            self.wait(waiter, following, now)
        return passed

    def _stays_alone(self, waiter: Waiter, gate: Gate) -> bool:
        """Return whether nobody else waits, and the next message of a publisher that left the line may pass."""
        if self._scheduled or gate.in_line() > 0 or gate.returning or self._meter.done >= self._end:
            return False
        return gate.open and not waiter.asks_for_credit and waiter.obstacle() is None

    def _pass_one(self, waiter: Waiter, gate: Gate, others: i64, now: float) -> None:
        """Let one message pass, and advance its producer and the clock."""
        if waiter.ticket > self._floor:
            self._floor = waiter.ticket
        was_open = gate.open
        gate.turned_at = now
        cost = waiter.take_turn(now) * SCALE
        if was_open and not gate.open:
            gate.closed_at_ticket = self._floor
        waiter.finish = self._floor + (cost + waiter.unturned_bytes * SCALE) // waiter.weight
        waiter.unturned_bytes = 0
        clock = self._clock + cost // others
        if clock > self._floor + cost:
            # Many gates with few waiters each would otherwise advance the clock past waiters further on.
            clock = self._floor + cost
        if clock < self._floor:
            clock = self._floor
        if clock > self._clock:
            self._clock = clock
        waiter.ticket = waiter.finish

    def _number(self, waiter: Waiter) -> None:
        self._drawn += 1
        waiter.serial = self._drawn


def _may_wait(gate: Gate) -> bool:
    """Return whether no consumer behind a gate runs dry while others are waited for."""
    return gate.owner is not None and gate.owner.may_defer_turn()


def forget_returning(gate: Gate) -> None:
    """Stop waiting for returning producers at a gate."""
    for _, _, waiter in gate.returning:
        if waiter.expected_at is gate:
            waiter.expected_at = None
    gate.returning = NOBODY_RETURNS


def _first_returning(gate: Gate, now: float) -> Waiter | None:
    """Return the first producer that a gate waits for, None without one; forget producers that returned or are too
    late.
    """
    returning = gate.returning
    while returning:
        position, _, waiter = returning[0]
        if waiter.expected_at is not gate or waiter.listed_at != position:
            heapq.heappop(returning)
        elif waiter.gate is not None or waiter.back_by <= now:
            waiter.expected_at = None
            heapq.heappop(returning)
        elif waiter.finish != position:
            waiter.listed_at = waiter.finish
            heapq.heapreplace(returning, (waiter.finish, waiter.serial, waiter))
        else:
            return waiter
    return None
