"""A gate judged by a counted depth: the common part of an address's depth and of shared limits."""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.gate import Gate, GateOwner
from penstock.flow.level import Level, Thresholds
from penstock.flow.measure import Measure
from penstock.flow.turns import Turns


class CountedDepth(GateOwner):
    """Messages and bytes that are counted, their thresholds and their gate.

    The thresholds are compared with the depth alone, the capacity with the depth and what is promised.
    """

    def __init__(self, kind: str, name: str, thresholds: Thresholds, turns: Turns) -> None:
        self.turns = turns
        self.gate = Gate(kind, name, turns.transitions)
        self.gate.owner = self
        self.thresholds = thresholds
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.promised_messages: i64 = 0
        self.promised_bytes: i64 = 0
        """Room that is kept for commits which are entering, besides the depth. Granted credit has none here: it is a
        promise of queues."""

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
        """Return whether so much more stays within the capacity, promises included."""
        return self.thresholds.capacity.covers(
            self.messages + self.promised_messages + messages, self.bytes + self.promised_bytes + bytes
        )

    def free_room(self, messages: i64, bytes: i64, now: float) -> Level:
        """Return the room that is neither filled nor promised; exact if it is less than these amounts."""
        self.has_room(messages, bytes, now)
        return self.thresholds.capacity.less(self.messages + self.promised_messages, self.bytes + self.promised_bytes)

    @override
    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        return self.thresholds.bound(messages, bytes)

    @override
    def could_ever_take(self, messages: i64, bytes: i64) -> bool:
        return self.thresholds.capacity.covers(messages, bytes)

    @override
    def measure(self) -> Measure:
        return Measure(self.thresholds, self.messages, self.bytes, self.promised_messages, self.promised_bytes)

    @override
    def describe_cause(self, now: float) -> str:
        return self.measure().describe_cause(self.gate.open)

    @override
    def describe_refusal(self) -> str:
        return f"{self.gate.kind} '{self.gate.name}' {self.measure().describe_refusal(self.gate.open)}"
