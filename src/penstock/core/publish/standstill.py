"""Progress of a publisher without confirms: progress is no standstill.

Nobody waits for the outcome of such a publish, and its refusal loses it. So its hold deadline runs only while its gate
lets nothing of its publisher pass, and the depth of the gate does not go down either. For a gate opens only at its
resume threshold, and a slow consumer may take longer than the deadline from the capacity to there. With confirms each
message has its own deadline, so that its caller knows in time.

Departures leave no time behind, because they are on the hot path. The depth is looked at instead, several times in each
deadline.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER

LOOKS_A_DEADLINE: Final = 8
"""Looks at the depth in each hold deadline: a standstill is noticed an eighth of it late at most."""


class Standstill:
    """Progress of one publisher."""

    __slots__ = ("moved_at", "look_at", "_passed", "_gate", "_messages", "_bytes")

    def __init__(self) -> None:
        self.moved_at: float = -NEVER
        """Time at which one of its publishes passed, or its gate's depth was seen to have gone down; monotonic seconds.
        """
        self.look_at: float = NEVER
        """Time of the next look; NEVER while none is needed."""
        self._passed: bool = False
        """True if something passed since the last look: the depth may be higher than then, and have gone down."""
        self._gate: Gate | None = None
        self._messages: i64 = 0
        self._bytes: i64 = 0
        """The gate of the last look, and its depth then."""

    def begin(self, gate: Gate | None, hold_deadline_s: float, now: float) -> float:
        """Begin to look at the gate where a publish waits; return the time of the next look (monotonic seconds)."""
        if hold_deadline_s == NEVER or gate is None:
            return NEVER
        if self.look_at == NEVER or self.look_at <= now:
            self._see(gate, hold_deadline_s, now)
        return self.look_at

    def passed(self, now: float) -> None:
        """Record that a publish has passed."""
        self.moved_at = now
        self._passed = True

    def look(self, gate: Gate | None, hold_deadline_s: float, now: float) -> None:
        """Look whether the depth of the gate has gone down since the last look, if it is time."""
        if now < self.look_at or self.look_at == NEVER:
            return
        if gate is None:
            self.look_at = NEVER
            return
        known, messages, bytes = self._gate, self._messages, self._bytes
        self._see(gate, hold_deadline_s, now)
        if self._passed or (known is gate and (self._messages < messages or self._bytes < bytes)):
            self.moved_at = now
        self._passed = False

    def end(self) -> None:
        """Stop looking: nothing waits any more."""
        self.look_at = NEVER
        self._passed = False
        self._gate = None

    def _see(self, gate: Gate, hold_deadline_s: float, now: float) -> None:
        measured = gate.measure()
        self._gate = gate
        self.look_at = NEVER
        if measured is not None:
            self._messages, self._bytes = measured.messages, measured.bytes
            self.look_at = now + hold_deadline_s / LOOKS_A_DEADLINE
