"""The reason of a refused publish: its cause, a text, and whether a retry may succeed.

A protocol whose negative confirm carries a reason reads it from the outcome (`ConfirmRange.refusal`). AMQP 0-9-1 has no
place for it, so a text that nobody has needed yet is made on request.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import BrokerError
from penstock.flow.gate import Gate

DEADLINE: Final = "deadline"
"""It was held until its hold deadline."""
HOLD_BOUND: Final = "hold-bound"
"""The hold budget of its connection is used up."""
DELETED: Final = "deleted"
"""Its queue was deleted while it was held."""
NEVER_FITS: Final = "never-fits"
"""It is larger than the capacity, which was lowered while it was held."""
WITHDRAWN: Final = "withdrawn"
"""Its publisher took it back while it was held."""
ROLLED_BACK: Final = "rolled-back"
"""It is a commit of which a part is impossible."""


class Refusal:
    """The reason of a refused publish, or of several that were refused together."""

    __slots__ = ("cause", "gate", "retriable", "error", "_text")

    def __init__(
        self, cause: str, gate: Gate | None, text: str = "", retriable: bool = False, error: BrokerError | None = None
    ) -> None:
        self.cause = cause
        """One of the causes above, or the name of the queue's overflow policy."""
        self.gate = gate
        """The gate that refused it, or stopped it; None if others were before it."""
        self.retriable = retriable
        """True if a retry may succeed: the gate was closed for too long."""
        self.error = error
        """The error that says the same, if there is one."""
        self._text = text

    def describe(self) -> str:
        """Return the reason as a clause, which follows the target of the publish."""
        if self._text:
            return self._text
        if self.error is not None:
            return str(self.error)
        gate = self.gate
        if gate is None:
            return "the message was refused"
        if self.cause == DELETED:
            return f"queue '{gate.name}' was deleted"
        return gate.describe_overflow() or gate.describe_refusal()
