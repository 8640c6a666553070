"""Who may go on, and in which order: fair by bytes, and nobody passes those who wait.

Theory of operation. A party that cannot go on waits at exactly one gate: the first one on its road that does not let
it pass. It holds a ticket and keeps it, from gate to gate, until it has passed. A gate that is open and has waiters
is *listed* here, by the ticket of its first waiter. A turn takes the first listed waiter and lets it look at its
whole road again (a wake-up is only a hint): it passes one message, or moves to the gate that stops it now.

Tickets are places on a scale of bytes (virtual time, as in fair queueing; decision 0011). Whoever comes draws the
place of the broker's clock; whoever has passed a message and has more stands again as many bytes further on as the
message was charged, divided by its weight. So equal messages go round in turn, a large message counts as many small
ones, and no memory of earlier rounds is needed. The clock goes on with each message by the share of one of those who
wait there: however many newcomers come, those who stand further on are reached. Among those who could go, nobody gets
ahead of another by more than twice the largest message.

A party that has passed all it had and waits to be told so (a small window of confirms) comes back within a round trip,
and until then those with more to send would take its share of the room. If it will stand before them it is waited for,
five milliseconds at most, and only while nobody behind the gate runs dry meanwhile; it takes up its place again
where it left it, not where the clock has gone meanwhile (decision 0020).

A gate that closes in the middle of a round lets those pass who have not had their turn in it, as far as there is room:
they are as newcomers between stop and capacity, and where little fits between resume and stop nobody is left out.

Why the gates are listed and not the waiters: an opened gate wakes nobody by itself. Waiters are looked at one by one
for as long as the gate stays open, so the work is proportional to those who pass, not to those who wait.

The first waiter of an open gate may not fit yet (its message is larger than the room). Then the gate leaves the list
and comes back when its depth has gone down; the others stay behind it, or the largest would starve.
"""

from __future__ import annotations

import heapq
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.flow.chores import Chores
from penstock.flow.gate import Gate, GateOwner, GateTransition, Waiter
from penstock.flow.timers import NEVER, TimerHandler, Timers

SCALE: Final = 64
"""Units of a ticket to the byte, so that a share of a byte counts too."""


RETURN_GRACE_S: Final = 0.005
"""Seconds that one who comes back is waited for: one or two round trips with a busy client in Python."""


class _ReturnGrace(TimerHandler):
    """A gate whose next turn waits for somebody to come back."""

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
    """The one line of the broker."""

    def __init__(self, deadlines: Timers | None = None) -> None:
        self.timers = Timers() if deadlines is None else deadlines
        self.chores = Chores()
        """Work that is done in slices, turn by turn."""
        self._scheduled: Final[list[tuple[i64, i64, Gate]]] = []
        self._drawn: i64 = 0
        self._clock: i64 = 1
        """The place that a newcomer draws."""
        self._floor: i64 = 1
        """The place of the last turn; never goes back."""
        self.pending: bool = False
        """Whether somebody may have a turn now."""
        self.transitions: list[GateTransition] = []
        """Gates that closed or opened since the broker last looked, in order."""
        self.losing: list[GateOwner] = []
        """Whose overflow policy dropped or refused messages that nobody has been told of yet, each once."""

    def wait(self, waiter: Waiter, gate: Gate, now: float) -> None:
        """Let a waiter stand in the line of a gate; it keeps the ticket it has, or draws one."""
        if waiter.ticket == 0:
            place = self._floor if now <= waiter.back_by else self._clock
            waiter.ticket = waiter.finish if waiter.finish > place else place
            self._number(waiter)
        gate.enter(waiter)
        waiter.waits_at(gate, now)
        gate.review(now)
        if gate.open:
            self.schedule(gate)

    def schedule(self, gate: Gate) -> None:
        """List a gate that is open and has waiters; doing so twice is harmless."""
        if gate.scheduled or not gate.waiters:
            return
        gate.scheduled = True
        first = gate.waiters[0]
        heapq.heappush(self._scheduled, (first[0], first[1], gate))
        self.pending = True

    def run(self, turns: int, now: float) -> int:
        """Give up to `turns` turns; returns how many messages passed."""
        passed = 0
        while turns > 0 and self._scheduled:
            turns -= 1
            gate = heapq.heappop(self._scheduled)[2]
            gate.scheduled = False
            if self._goes_on(gate) and self._turn(gate, now):
                passed += 1
        self.pending = bool(self._scheduled)
        return passed

    def _turn(self, gate: Gate, now: float) -> bool:
        if gate.returning and self._is_expected(gate, now):
            return False
        waiter = gate.first()
        gate.finishing_round = not gate.open
        obstacle = waiter.obstacle()
        gate.finishing_round = False
        if obstacle is gate:
            return False  # No room for the first yet; its owner lists the gate again when there is more.
        others: i64 = len(gate.waiters)
        gate.leave(waiter)
        gate.review(now)
        if obstacle is None:
            self._pass(waiter, gate, others, now)
        else:
            self.wait(waiter, obstacle, now)
        if self._goes_on(gate):
            self.schedule(gate)
        return obstacle is None

    def _goes_on(self, gate: Gate) -> bool:
        """Tell whether somebody at a gate may have a turn: it is open, or its round is not at its end."""
        return len(gate.waiters) > 0 and (gate.open or gate.waiters[0][0] <= gate.closed_at_ticket)

    def _is_expected(self, gate: Gate, now: float) -> bool:
        """Tell whether the next turn belongs to somebody who is about to come back; it is given later then."""
        absent = gate.returning
        while absent and (absent[0][1] <= now or absent[0][3].gate is not None or absent[0][3].finish != absent[0][0]):
            heapq.heappop(absent)  # It is back, or its time is up.
        if not absent or absent[0][0] >= gate.waiters[0][0] or gate.owner is None or not gate.owner.may_defer_turn():
            return False
        timer = gate.timer
        if timer is None:
            timer = _ReturnGrace(self, gate)
            gate.timer = timer
        self.timers.add(timer, absent[0][1])
        return True

    def _pass(self, waiter: Waiter, gate: Gate, others: i64, now: float) -> None:
        """Let one message pass; its producer stands again where its next belongs. `others` wait there, it included."""
        if waiter.ticket > self._floor:
            self._floor = waiter.ticket
        was_open = gate.open
        cost = waiter.take_turn(now) * SCALE
        if was_open and not gate.open:
            gate.closed_at_ticket = self._floor
        waiter.finish = self._floor + cost // waiter.weight
        clock = self._clock + cost // others
        if clock > self._floor + cost:
            clock = self._floor + cost  # Where many gates have few waiters each, it would run away from those who wait.
        if clock < self._floor:
            clock = self._floor
        if clock > self._clock:
            self._clock = clock
        following = waiter.next_gate()
        waiter.ticket = 0
        if following is None:
            if others > 1 and waiter.will_return_soon():
                waiter.back_by = now + RETURN_GRACE_S
                heapq.heappush(gate.returning, (waiter.finish, waiter.back_by, waiter.serial, waiter))
        else:
            waiter.ticket = waiter.finish
            self._number(waiter)
            self.wait(waiter, following, now)

    def _number(self, waiter: Waiter) -> None:
        self._drawn += 1
        waiter.serial = self._drawn
