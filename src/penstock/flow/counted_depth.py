"""A gate judged by a counted depth: the common part of an address's depth and of shared limits."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.flow.gate import Gate, GateOwner
from penstock.flow.level import Thresholds
from penstock.flow.measure import Measure
from penstock.flow.turns import Turns


class CountedDepth(GateOwner):
    """Messages and bytes that are counted, their thresholds and their gate."""

    def __init__(self, kind: str, name: str, thresholds: Thresholds, turns: Turns) -> None:
        self.turns = turns
        self.gate = Gate(kind, name, turns.transitions)
        self.gate.owner = self
        self.thresholds = thresholds
        self.messages: i64 = 0
        self.bytes: i64 = 0

    def judge(self, now: float) -> None:
        """Close or open the gate by the counted depth; schedule its waiters if it is open."""
        gate = self.gate
        if gate.open:
            if self.thresholds.overfull(self.messages, self.bytes):
                gate.close(self.messages, self.bytes, now)
        elif self.thresholds.underfull(self.messages, self.bytes):
            gate.reopen(self.messages, self.bytes, now)
        if gate.open and gate.waiters:
            self.turns.schedule(gate)

    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        """See `GateOwner.limits_increase`."""
        return self.thresholds.bound(messages, bytes)

    def could_ever_take(self, messages: i64, bytes: i64) -> bool:
        """See `GateOwner.could_ever_take`."""
        return self.thresholds.capacity.covers(messages, bytes)

    def measure(self) -> Measure:
        """See `GateOwner.measure`."""
        return Measure(self.thresholds, self.messages, self.bytes)

    def describe_cause(self, now: float) -> str:
        """See `GateOwner.describe_cause`."""
        return self.measure().describe_cause(self.gate.open)

    def describe_refusal(self) -> str:
        """See `GateOwner.describe_refusal`."""
        return f"{self.gate.kind} '{self.gate.name}' {self.measure().describe_refusal(self.gate.open)}"
