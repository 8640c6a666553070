"""Depth of an address: messages routed through an exchange and still in any queue, each charged once."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.gate import Gate
from penstock.flow.level import Level, Thresholds
from penstock.flow.shared_limit import CountedDepth
from penstock.flow.turns import Turns

NO_BOUND: Final = Thresholds(Level(), Level(), Level())


class AddressDepth(CountedDepth):
    """The depth of an address, its thresholds and its gate."""

    def __init__(self, name: str, thresholds: Thresholds, turns: Turns) -> None:
        super().__init__("address", name, thresholds, turns)
        self.retired: bool = False
        """True if the messages of this depth are to be counted in another depth: see `AddressCount`."""

    def set_thresholds(self, thresholds: Thresholds, now: float) -> None:
        """Replace the thresholds and update the gate."""
        self.thresholds = thresholds
        self.update_gate(now)

    def end(self) -> None:
        """Release the depth: without the reference cycle of gate and owner it is freed at once."""
        self.gate.owner = None

    def retire(self, now: float) -> None:
        """Open the gate for good; messages that still count here are counted elsewhere once a bound is set."""
        self.set_thresholds(NO_BOUND, now)
        self.retired = True

    def is_idle(self) -> bool:
        """Return whether the depth counts no messages, and has no waiters."""
        gate = self.gate
        return (
            self.messages == 0 and self.promised_messages == 0 and gate.open and not gate.blocked and not gate.in_line()
        )

    def add(self, messages: i64, bytes: i64, now: float) -> None:
        """Count new messages, or (negative) messages that left their last queue."""
        self.messages += messages
        self.bytes += bytes
        self.update_gate(now)

    def promise(self, messages: i64, bytes: i64, now: float) -> None:
        """Promise room to a commit that is entering, or (negative) release it."""
        self.promised_messages += messages
        self.promised_bytes += bytes
        self.judge(now)

    @override
    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        return self.covers(1, charge)

    @override
    def update_gate(self, now: float) -> None:
        self.judge(now)


class AddressShare:
    """One message's part in the depth of its address, shared by the copies of a fan-out."""

    __slots__ = ("depth", "charge", "copies")

    def __init__(self, depth: AddressDepth, charge: i64) -> None:
        self.depth = depth
        self.charge: i64 = charge
        self.copies: i64 = 0
        """Number of queues that have the message."""

    def enter(self, now: float) -> None:
        """Count a copy that entered a queue."""
        self.copies += 1
        if self.copies == 1:
            self.depth.add(1, self.charge, now)

    def leave(self, now: float) -> None:
        """Count a copy that left a queue."""
        self.copies -= 1
        if self.copies == 0:
            self.depth.add(-1, -self.charge, now)


LEFT: Final = AddressShare(AddressDepth("", NO_BOUND, Turns()), 0)
"""Marker of a message that left its queue while the messages there were counted: see `AddressCount`."""


def share_of(gates: list[Gate], charge: i64) -> AddressShare | None:
    """Return a message's part in the depth of its address; None if that depth is not limited."""
    depth = depth_of(gates)
    return None if depth is None else AddressShare(depth, charge)


def depth_of(gates: list[Gate]) -> AddressDepth | None:
    """Return the depth among the gates of an address; None if it is not limited."""
    for gate in gates:
        owner = gate.owner
        if isinstance(owner, AddressDepth):
            return owner
    return None
