"""A gate that the operator closes and opens by hand, whatever the depths say."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.flow.gate import Gate, GateOwner
from penstock.flow.turns import Turns

QUEUE: Final = "queue"
ADDRESS: Final = "address"
VHOST: Final = "vhost"
USER: Final = "user"
CONNECTION: Final = "connection"
SCOPES: Final = (QUEUE, ADDRESS, VHOST, USER, CONNECTION)
"""What an operator may block."""


class OperatorGate(GateOwner):
    """Made closed; once it is open again and nobody waits at it any more it is taken off the roads."""

    def __init__(self, scope: str, vhost: str, name: str, reason: str, turns: Turns) -> None:
        self.turns = turns
        self.scope = scope
        self.vhost = vhost
        """Where a queue or an address is; the name itself for a virtual host; empty for users and connections."""
        self.name = name
        self.reason = reason
        """The operator's own words, for those who are told; may be empty."""
        self.gate = Gate("operator", f"{scope} {name}", turns.transitions)
        self.gate.owner = self

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """See `GateOwner.admits`: nothing goes in while it is closed, not even up to the capacity."""
        return self.gate.open

    def update_gate(self, now: float) -> None:
        """See `GateOwner.update_gate`."""
        if self.gate.open and self.gate.waiters:
            self.turns.schedule(self.gate)

    def describe_cause(self, now: float) -> str:
        """See `GateOwner.describe_cause`: the operator's own words."""
        return self.reason

    def describe_refusal(self) -> str:
        """See `GateOwner.describe_refusal`."""
        return f"the operator blocks {self.gate.name}{': ' if self.reason else ''}{self.reason}"

    def vhost_name(self) -> str | None:
        """See `GateOwner.vhost_name`."""
        return self.vhost or None

    def lasts(self) -> bool:
        """Return whether it is closed again after a restart: whoever closes a gate by hand opens it by hand.

        A connection does not outlive the broker, and its number is another's then.
        """
        return self.scope != CONNECTION

    def idle(self) -> bool:
        """Return whether it may be taken off the roads: it is open, and nobody waits at it."""
        return self.gate.open and not self.gate.waiters
