"""Operator gates, closed and opened by command, regardless of depths."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.gate import Gate, GateOwner
from penstock.flow.turns import Turns

QUEUE: Final = "queue"
ADDRESS: Final = "address"
VHOST: Final = "vhost"
USER: Final = "user"
CONNECTION: Final = "connection"
SCOPES: Final[tuple[str, ...]] = (QUEUE, ADDRESS, VHOST, USER, CONNECTION)
"""Scopes that an operator can block."""


class OperatorGate(GateOwner):
    """A gate that an operator closes; created closed, and removed from the roads once it is open and has no waiters."""

    def __init__(self, scope: str, vhost: str, name: str, reason: str, turns: Turns) -> None:
        self.turns = turns
        self.scope = scope
        self.vhost = vhost
        """Virtual host of a queue or address, or the blocked virtual host; empty for users and connections."""
        self.name = name
        self.reason = reason
        """The reason that the operator gave; may be empty."""
        self.gate = Gate("operator", f"{scope} {name}", turns.transitions)
        self.gate.owner = self

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """See `GateOwner.admits`: no message passes while the gate is closed, not even up to the capacity."""
        return self.gate.open

    @override
    def update_gate(self, now: float) -> None:
        if self.gate.open and self.gate.has_line():
            self.turns.schedule(self.gate)

    def describe_cause(self, now: float) -> str:
        """See `GateOwner.describe_cause`: the operator's reason."""
        return self.reason

    @override
    def describe_refusal(self) -> str:
        return f"the operator blocks {self.gate.name}{': ' if self.reason else ''}{self.reason}"

    @override
    def vhost_name(self) -> str | None:
        return self.vhost or None

    def lasts(self) -> bool:
        """Return whether the gate is closed again after a restart: a gate closed by command is only opened by command.

        A connection does not survive a restart, and its number may be reused afterwards.
        """
        return self.scope != CONNECTION

    def idle(self) -> bool:
        """Return whether the gate may be removed from the roads: it is open and has no waiters."""
        return self.gate.open and not self.gate.in_line()
