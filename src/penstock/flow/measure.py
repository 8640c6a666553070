"""The depth of a gate with its thresholds, and clauses that describe them."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.flow.level import UNLIMITED, Thresholds, amounts


def amount(value: i64) -> str:
    """Return a number as text: grouped, and -1 for no limit."""
    return "-1" if value == UNLIMITED else f"{int(value):,}"


class Measure:
    """A depth and its thresholds at one moment."""

    def __init__(
        self,
        thresholds: Thresholds,
        messages: i64,
        bytes: i64,
        reserved_messages: i64 = 0,
        reserved_bytes: i64 = 0,
    ) -> None:
        """Take a depth and what is reserved, bytes in charges. The attributes have them as the thresholds count."""
        self.thresholds = thresholds
        self.messages: i64 = messages
        self.bytes: i64 = thresholds.capacity.counted(messages, bytes)
        self.paged_messages: i64 = 0
        self.paged_bytes: i64 = 0
        """Bytes of the depth that are on disk only."""
        self.reserved_messages: i64 = reserved_messages
        self.reserved_bytes: i64 = thresholds.capacity.counted(reserved_messages, reserved_bytes)
        """Bytes reserved besides the depth, for granted credit or for commits that are entering."""

    def describe_cause(self, open: bool) -> str:
        """Return the clause of a gate at this depth: the cause of its closing, or the missing room of an open one."""
        if open:
            return self.describe_full()
        causes: list[str] = []
        stop, resume = self.thresholds.stop, self.thresholds.resume
        if self.messages > stop.messages or (self.messages > resume.messages and stop.messages != UNLIMITED):
            causes.append(_threshold(self.messages, "messages", stop.messages, resume.messages))
        if self.bytes > stop.bytes or (self.bytes > resume.bytes and stop.bytes != UNLIMITED):
            causes.append(_threshold(self.bytes, "bytes", stop.bytes, resume.bytes))
        return "; ".join(causes)

    def describe_full(self) -> str:
        """Return the clause that the next message does not fit, for each unit with a capacity.

        Where a capacity leaves room, exact credit lacks room below the stop threshold.
        """
        capacity, stop = self.thresholds.capacity, self.thresholds.stop
        parts: list[str] = []
        if capacity.messages != UNLIMITED:
            parts.append(f"{amount(self.messages)} of {amount(capacity.messages)} messages")
        if capacity.bytes != UNLIMITED or not parts:
            parts.append(f"{amount(self.bytes)} of {amount(capacity.bytes)} bytes")
        messages, size = self.messages + self.reserved_messages, self.bytes + self.reserved_bytes
        stopped = messages >= stop.messages or size >= stop.bytes
        depth = f"{', '.join(parts)}{self.describe_reserved()}"
        if stopped and messages < capacity.messages and size < capacity.bytes:
            return f"{depth}: no room below stop {stop.describe()} for exact credit"
        return f"{depth}: no room for the next message"

    def describe_reserved(self) -> str:
        """Return the reserved part as the continuation of a clause; empty if there is none."""
        if self.reserved_messages == 0:
            return ""
        return f", and {amounts(self.reserved_messages, self.reserved_bytes)} reserved for credit"

    def describe_refusal(self, open: bool) -> str:
        """Return the depth and the capacity that refused a publish; for a closed gate its thresholds too."""
        marks, thresholds = "", self.thresholds
        if not open:
            marks = f"closed above {thresholds.stop.describe()}, opens at {thresholds.resume.describe()}, "
        depth = f"{amounts(self.messages, self.bytes)}{self.describe_reserved()}"
        return f"holds {depth} ({marks}capacity {thresholds.capacity.describe()})"


def _threshold(depth: i64, unit: str, stop: i64, resume: i64) -> str:
    sign = ">" if depth > stop else "after more than"
    return f"{amount(depth)} {unit} {sign} stop {amount(stop)} (opens at {amount(resume)})"
