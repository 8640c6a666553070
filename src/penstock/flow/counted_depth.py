"""A gate judged by a counted depth: the common part of an address's depth and of shared limits."""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.gate import Gate, GateOwner
from penstock.flow.level import Level, Thresholds
from penstock.flow.measure import Measure
from penstock.flow.reserved_room import ReservedRoom, RoomHolder
from penstock.flow.turns import Turns


class CountedDepth(GateOwner):
    """Messages and bytes that are counted, their thresholds and their gate.

    The thresholds are compared with the depth alone, the capacity with the depth and what is reserved.
    """

    def __init__(self, kind: str, name: str, thresholds: Thresholds, turns: Turns) -> None:
        self.turns = turns
        self.gate = Gate(kind, name, turns.transitions)
        self.gate.owner = self
        self.thresholds = thresholds
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.reserved = ReservedRoom()
        """Room for granted credit, besides the depth."""

    def judge(self, now: float) -> None:
        """Close or open the gate by the counted depth; schedule its waiters if it is open."""
        gate = self.gate
        if gate.open:
            if self.thresholds.overfull(self.messages, self.bytes):
                gate.close(self.messages, self.thresholds.stop.counted(self.messages, self.bytes), now)
        elif self.thresholds.underfull(self.messages, self.bytes):
            gate.reopen(self.messages, self.thresholds.resume.counted(self.messages, self.bytes), now)
        if gate.open and gate.has_line():
            self.turns.schedule(gate)

    @override
    def has_room(self, messages: i64, bytes: i64, now: float) -> bool:
        return self.covers(messages, bytes)

    def covers(self, messages: i64, bytes: i64) -> bool:
        """Return whether so much more stays within the capacity, reservations included."""
        room = self.reserved
        return self.thresholds.capacity.covers(
            self.messages + room.messages + messages, self.bytes + room.bytes + bytes
        )

    def free_room(self, messages: i64, bytes: i64, now: float) -> Level:
        """Return the room that is neither filled nor reserved; exact if it is less than these amounts."""
        self.has_room(messages, bytes, now)
        room = self.reserved
        return self.thresholds.capacity.less(self.messages + room.messages, self.bytes + room.bytes)

    def count_reserved(self, holder: RoomHolder, messages: i64, bytes: i64, still: bool, now: float) -> None:
        """Count more reserved room, or (negative) less; see `ReservedRoom.count`."""
        self.reserved.count(holder, messages, bytes, still)
        self.judge(now)

    def fit_reserved(self, now: float) -> None:
        """Take reserved room back if it no longer fits, after a change of the capacity or of the members."""
        if self.reserved.messages > 0 and not self.has_room(0, 0, now):
            self.reserved.fit(self.thresholds.capacity.less(self.messages, self.bytes - self.guaranteed_total()), now)

    @override
    def recall(self, now: float) -> bool:
        return self.reserved.recall(now)

    @override
    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        return self.thresholds.bound(messages, bytes)

    @override
    def could_ever_take(self, messages: i64, bytes: i64) -> bool:
        return self.thresholds.capacity.covers(messages, bytes)

    @override
    def measure(self) -> Measure:
        return Measure(self.thresholds, self.messages, self.bytes, self.reserved)

    @override
    def describe_cause(self, now: float) -> str:
        return self.measure().describe_cause(self.gate.open)

    @override
    def describe_refusal(self) -> str:
        return f"{self.gate.kind} '{self.gate.name}' {self.measure().describe_refusal(self.gate.open)}"
