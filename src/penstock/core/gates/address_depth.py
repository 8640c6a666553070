"""What was routed through an address and is still held by any queue, each message charged once."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.flow.gate import Gate, GateOwner
from penstock.flow.level import Thresholds
from penstock.flow.measure import Measure
from penstock.flow.turns import Turns


class AddressDepth(GateOwner):
    """The depth of an address, its thresholds and its gate."""

    def __init__(self, name: str, thresholds: Thresholds, turns: Turns) -> None:
        self.turns = turns
        self.gate = Gate("address", name, turns.transitions)
        self.gate.owner = self
        self.thresholds = thresholds
        self.messages: i64 = 0
        self.bytes: i64 = 0

    def set_thresholds(self, thresholds: Thresholds, now: float) -> None:
        """Judge by other thresholds from now on."""
        self.thresholds = thresholds
        self.update_gate(now)

    def add(self, messages: i64, bytes: i64, now: float) -> None:
        """Count messages that came in, or (negative) left the last queue that held them."""
        self.messages += messages
        self.bytes += bytes
        self.update_gate(now)

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """See `GateOwner.admits`."""
        return self.thresholds.capacity.covers(self.messages + 1, self.bytes + charge)

    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        """See `GateOwner.limits_increase`."""
        return self.thresholds.bound(messages, bytes)

    def has_room(self, messages: i64, bytes: i64, now: float) -> bool:
        """See `GateOwner.has_room`."""
        return self.thresholds.capacity.covers(self.messages + messages, self.bytes + bytes)

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

    def update_gate(self, now: float) -> None:
        """See `GateOwner.update_gate`."""
        gate = self.gate
        if gate.open:
            if self.thresholds.overfull(self.messages, self.bytes):
                gate.close(self.messages, self.bytes, now)
        elif self.thresholds.underfull(self.messages, self.bytes):
            gate.reopen(self.messages, self.bytes, now)
        if gate.open and gate.waiters:
            self.turns.schedule(gate)


class AddressShare:
    """One message's part in its address; the copies of a fan-out have it in common."""

    __slots__ = ("depth", "charge", "copies")

    def __init__(self, depth: AddressDepth, charge: i64) -> None:
        self.depth = depth
        self.charge: i64 = charge
        self.copies: i64 = 0
        """In how many queues the message still is."""

    def enter(self, now: float) -> None:
        """One more queue has it."""
        self.copies += 1
        if self.copies == 1:
            self.depth.add(1, self.charge, now)

    def leave(self, now: float) -> None:
        """One queue less has it."""
        self.copies -= 1
        if self.copies == 0:
            self.depth.add(-1, -self.charge, now)


def share_of(gates: list[Gate], charge: i64) -> AddressShare | None:
    """Return a message's part in the depth of its address; None where none of the address's gates bounds that."""
    for gate in gates:
        owner = gate.owner
        if isinstance(owner, AddressDepth):
            return AddressShare(owner, charge)
    return None
