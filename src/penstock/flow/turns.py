"""Who may go on, oldest ticket first.

Theory of operation. A party that cannot go on waits at exactly one gate: the first one on its road that does not let
it pass. It holds a ticket from one counter for the whole broker and keeps it, from gate to gate, until it has passed;
then, if it has more to send, it draws a new one and stands behind everybody else. A gate that is open and has waiters
is *listed* here, by the ticket of its oldest waiter. A turn takes the oldest listed waiter and lets it look at its
whole road again (a wake-up is only a hint): it passes one message, or moves to the gate that stops it now.

Why the gates are listed and not the waiters: an opened gate wakes nobody by itself. Waiters are looked at one by one
for as long as the gate stays open, so the work is proportional to those who pass, not to those who wait.

The oldest waiter of an open gate may not fit yet (its message is larger than the room). Then the gate leaves the list
and comes back when its depth has gone down; the younger ones stay behind it, or the largest would starve.
"""

from __future__ import annotations

import heapq
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.flow.gate import Crossing, Gate, Waiter


@mypyc_attr(allow_interpreted_subclasses=True)
class Turns:
    """The one line of the broker."""

    def __init__(self) -> None:
        self._listed: Final[list[tuple[int, Gate]]] = []
        self._drawn: i64 = 0
        self.pending: bool = False
        """Whether somebody may have a turn now."""
        self.crossings: list[Crossing] = []
        """Gates that closed or opened since the broker last looked, in order."""

    def draw(self) -> int:
        """Draw a ticket: the place behind everybody who waits now."""
        self._drawn += 1
        return int(self._drawn)

    def wait(self, waiter: Waiter, gate: Gate, now: float) -> None:
        """Let a waiter stand in the line of a gate; it keeps the ticket it has, or draws one."""
        if waiter.ticket == 0:
            waiter.ticket = self.draw()
        gate.enter(waiter)
        waiter.waits_at(gate, now)
        gate.review(now)
        if gate.open:
            self.enlist(gate)

    def enlist(self, gate: Gate) -> None:
        """List a gate that is open and has waiters; doing so twice is harmless."""
        if gate.listed or not gate.waiters:
            return
        gate.listed = True
        heapq.heappush(self._listed, (gate.waiters[0][0], gate))
        self.pending = True

    def run(self, turns: int, now: float) -> int:
        """Give up to `turns` turns; returns how many messages passed."""
        passed = 0
        while turns > 0 and self._listed:
            turns -= 1
            gate = heapq.heappop(self._listed)[1]
            gate.listed = False
            if gate.open and gate.waiters and self._turn(gate, now):
                passed += 1
        self.pending = bool(self._listed)
        return passed

    def _turn(self, gate: Gate, now: float) -> bool:
        waiter = gate.waiters[0][1]
        obstacle = waiter.obstacle()
        if obstacle is gate:
            return False  # No room for the oldest yet; Queue lists the gate again when its depth goes down.
        gate.leave(waiter)
        gate.review(now)
        if obstacle is None:
            waiter.take_turn(now)
            following = waiter.obstacle_ahead()
            waiter.ticket = 0
            if following is not None:
                self.wait(waiter, following, now)
        else:
            self.wait(waiter, obstacle, now)
        if gate.open:
            self.enlist(gate)
        return obstacle is None
