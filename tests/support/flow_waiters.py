"""Parties for the tests of gates and turns: they wait with a list of what they want to pass."""

from __future__ import annotations

from penstock.flow.gate import Gate, Waiter
from penstock.flow.turns import Turns


class Walker(Waiter):
    """Has one road for each of its messages; notes where and when it passes."""

    def __init__(self, name: str, turns: Turns, passed: list[str], *roads: list[Gate]) -> None:
        super().__init__()
        self.name = name
        self.turns = turns
        self.passed = passed
        self.roads = list(roads)
        self.too_big_for: set[str] = set()
        """Gates that have no room for it although they are open."""
        self.released: list[str] = []
        self.charge = 1
        """What each of its messages is charged."""
        self.rows: list[int] = []
        """Messages that everybody had passed, at the end of each of its rows of turns."""

    def stand(self) -> None:
        """Stand in line for the first message."""
        self.turns.wait(self, self.obstacle() or self.roads[0][0], 0.0)

    def waits_at(self, gate: Gate, now: float) -> None:
        gate.block(self)
        gate.expect(self)

    def obstacle(self, finishing: Gate | None = None) -> Gate | None:
        for gate in self.roads[0]:
            if not gate.open or gate.name in self.too_big_for:
                return gate
        return None

    def take_turn(self, now: float) -> int:
        self.passed.append(self.name)
        del self.roads[0]
        return self.charge

    def after_release(self, now: float) -> None:
        self.rows.append(len(self.passed))

    def next_gate(self) -> Gate | None:
        return (self.obstacle() or self.roads[0][0]) if self.roads else None

    def release(self, gate: Gate, now: float) -> int:
        self.released.append(gate.name)
        return 0


def reopen(turns: Turns, gate: Gate) -> None:
    gate.reopen(0, 0, 0.0)
    turns.schedule(gate)
