"""Base of the gates before the disk, and the keys of its kinds."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.gate import Gate, GateOwner
from penstock.flow.turns import Turns

DISK_KIND: Final = "disk"
"""Kind of all disk gates."""
QUOTA: Final = "quota"
FREE_SPACE: Final = "room"
STORE_FAILURE: Final = "store"
"""First words of the gates' names, one for each kind."""


class DiskState:
    """The disk, as its gates see it; `Disk` implements it."""

    turns: Turns
    needed: i64
    """Free space that the store itself will need."""

    def find_easy(self) -> None:
        """Update for each virtual host whether all its gates are open."""
        raise NotImplementedError


class DiskGate(GateOwner):
    """Base of the disk gates."""

    def __init__(self, disk: DiskState, name: str) -> None:
        self.disk = disk
        self.gate = Gate(DISK_KIND, name, disk.turns.transitions)
        self.gate.owner = self

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """See `GateOwner.admits`: nothing goes in while it is closed."""
        return self.gate.open

    @override
    def update_gate(self, now: float) -> None:
        if self.gate.open and self.gate.has_line():
            self.disk.turns.schedule(self.gate)
        self.disk.find_easy()

    def move(self, closed: bool, amount: i64, now: float) -> None:
        """Close or open the gate, at this amount of bytes."""
        if closed:
            self.gate.close(0, amount, now)
        else:
            self.gate.reopen(0, amount, now)

    @override
    def describe_refusal(self) -> str:
        return f"disk {self.gate.name}: {self.describe_cause(0.0)}"
