"""Levels and thresholds in messages and bytes, and the depth of a gate with clauses that describe it.

The law (docs/inside/flow-control.md): a queue above its stop threshold, in messages *or* bytes, is overfull; at or
below its resume threshold, in messages *and* bytes, it is underfull. Its depth never passes its capacity, in either
unit.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

UNLIMITED: Final = 1 << 62
""""No limit" where a number is compared; users and protocols see None."""

OVERHEAD: Final = 240
"""Bytes charged for each message besides properties and body.

The real memory use of a message (record, bytes object, frames, queue entry), measured by bench/memory.py and rounded
up.
"""


class Level:
    """A pair of amounts: messages, and bytes (the sum of the messages' charges, or a part of each charge)."""

    __slots__ = ("messages", "bytes", "uncounted")

    def __init__(self, messages: i64 = UNLIMITED, bytes: i64 = UNLIMITED, uncounted: i64 = 0) -> None:
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        self.uncounted: i64 = uncounted
        """Bytes of each charge that do not count in `bytes`, for settings with names of other brokers (decision 93)."""

    def counted(self, messages: i64, bytes: i64) -> i64:
        """Return the bytes of so many messages as this level counts them; `bytes` is the sum of their charges."""
        return bytes - messages * self.uncounted

    def covers(self, messages: i64, bytes: i64) -> bool:
        """Return whether both amounts, the second in charges, are at or below this level."""
        return messages <= self.messages and bytes - messages * self.uncounted <= self.bytes

    def unlimited(self) -> bool:
        """Return whether neither amount has a limit."""
        return self.messages == UNLIMITED and self.bytes == UNLIMITED

    def less(self, messages: i64, bytes: i64) -> Level:
        """Return this level minus so many messages with these charges; both amounts may be negative."""
        return Level(self.messages - messages, self.bytes - self.counted(messages, bytes), self.uncounted)

    def largest_charge(self) -> i64:
        """Return the largest charge of one message that this level covers."""
        return self.bytes + self.uncounted

    def as_dict(self) -> dict[str, int | None]:
        """Return the pair as plain data; None means no limit."""
        messages: int | None = None if self.messages == UNLIMITED else int(self.messages)
        size: int | None = None if self.bytes == UNLIMITED else int(self.bytes)
        return {"messages": messages, "bytes": size}

    def describe(self) -> str:
        """Return the pair as text: "1,000 messages", "4,194,304 bytes", both, or "no limit"."""
        parts: list[str] = []
        if self.messages != UNLIMITED:
            parts.append(f"{int(self.messages):,} message{'' if self.messages == 1 else 's'}")
        if self.bytes != UNLIMITED:
            parts.append(f"{int(self.bytes):,} bytes")
        return " and ".join(parts) or "no limit"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Level):
            return False
        return self.messages == other.messages and self.bytes == other.bytes and self.uncounted == other.uncounted

    def __hash__(self) -> int:
        return hash((int(self.messages), int(self.bytes)))

    def __repr__(self) -> str:
        return f"Level({self.as_dict()})"


def amounts(messages: i64, bytes: i64) -> str:
    """Return a depth as text: "1,000 messages, 4,194,304 bytes"."""
    return f"{int(messages):,} message{'' if messages == 1 else 's'}, {int(bytes):,} bytes"


class Thresholds:
    """Capacity, stop threshold and resume threshold of one gate."""

    __slots__ = ("capacity", "stop", "resume")

    def __init__(self, capacity: Level, stop: Level, resume: Level) -> None:
        self.capacity = capacity
        self.stop = stop
        self.resume = resume

    def equals(self, other: Thresholds) -> bool:
        """Return whether all three are the same."""
        return self.capacity == other.capacity and self.stop == other.stop and self.resume == other.resume

    def overfull(self, messages: i64, bytes: i64) -> bool:
        """Return whether the gate must close.

        `>` stop, so that a stop of 0 admits one message (Qpid C++ and Broker-J).
        """
        return not self.stop.covers(messages, bytes)

    def underfull(self, messages: i64, bytes: i64) -> bool:
        """Return whether the gate must open: `<=` resume, so that a resume of 0 opens when empty (as in Broker-J)."""
        return self.resume.covers(messages, bytes)

    def exact(self) -> Level:
        """Return the most that depth and exact credit may have together: stop, or one message where a stop is 0."""
        stop = self.stop
        if stop.messages == 0 or stop.bytes == 0:
            return Level(1, self.capacity.bytes, stop.uncounted)
        return stop

    def bound(self, messages: i64, bytes: i64) -> bool:
        """Return whether an increase by these amounts counts in a unit with a limit here."""
        if messages > 0 and (self.stop.messages != UNLIMITED or self.capacity.messages != UNLIMITED):
            return True
        return bytes > 0 and (self.stop.bytes != UNLIMITED or self.capacity.bytes != UNLIMITED)


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
        """Set the depth and the reserved amounts, bytes in charges.

        The attributes have them in the unit of the thresholds.
        """
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
        """Return the clause "no room for the next message", with each unit that has a capacity.

        If the capacity has room, the clause says that exact credit has no room below the stop threshold.
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
    if depth > stop:
        return f"{amount(depth)} {unit} > stop {amount(stop)} (opens at {amount(resume)})"
    return f"{amount(depth)} {unit}; it was above stop ({amount(stop)}) and opens at {amount(resume)}"
