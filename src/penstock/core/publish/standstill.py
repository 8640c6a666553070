"""Progress of a publisher without confirms: its hold deadline runs only while nothing moves.

The outcome of such a publish is not reported, and its refusal loses the message. So its hold deadline runs only while
its gate passes no message of the publisher, and the depth of the gate does not fall either. The reason: a gate opens
only at its resume threshold, and a slow consumer may need longer than the deadline to get there from the capacity. With
confirms each message has its own deadline, so that its caller is answered in time.

Departures record no time, because they are on the hot path. Instead the depth is checked several times in each
deadline.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER

LOOKS_A_DEADLINE: Final = 8
"""Checks of the depth in each hold deadline: a standstill is noticed at most an eighth of the deadline late."""


class Standstill:
    """Progress of one publisher."""

    __slots__ = ("moved_at", "look_at", "_passed", "_gate", "_messages", "_bytes")

    def __init__(self) -> None:
        self.moved_at: float = -NEVER
        """Last time at which a publish passed, or the gate's depth was found to have fallen; monotonic seconds."""
        self.look_at: float = NEVER
        """Time of the next check; NEVER while none is needed."""
        self._passed: bool = False
        """True if a publish passed since the last check: the depth may be higher than then, and have fallen in
        between.
        """
        self._gate: Gate | None = None
        self._messages: i64 = 0
        self._bytes: i64 = 0
        """The gate of the last check, and its depth then."""

    def begin(self, gate: Gate | None, hold_deadline_s: float, now: float) -> float:
        """Begin to check the gate where a publish waits; return the time of the next check (monotonic seconds)."""
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
        """Check whether the depth of the gate has fallen since the last check, if it is time."""
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
        """Stop checking, because nothing waits any more."""
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
