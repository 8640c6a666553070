"""Levels and thresholds in messages and bytes.

The law (docs/flow-control.md): a queue above its stop threshold, in messages *or* bytes, is overfull; at or below its
resume threshold, in messages *and* bytes, it is underfull. Its depth never passes its capacity, in either unit.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

UNLIMITED: Final = 1 << 62
"""Stands for "no limit" where a number is compared; people and protocols see None."""

OVERHEAD: Final = 240
"""Octets charged for each message besides properties and body.

The real memory use of one (record, bytes object, frames, queue entry), measured by bench/memory.py and rounded up.
"""


class Level:
    """A pair of amounts: messages, and bytes (the sum of the messages' charges, or a part of each charge)."""

    __slots__ = ("messages", "bytes", "uncounted")

    def __init__(self, messages: i64 = UNLIMITED, bytes: i64 = UNLIMITED, uncounted: i64 = 0) -> None:
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        self.uncounted: i64 = uncounted
        """Octets of each charge that do not count in `bytes`, as by names of other brokers (decision 93)."""

    def counted(self, messages: i64, bytes: i64) -> i64:
        """Return the bytes of so many messages as this level counts them; `bytes` is the sum of their charges."""
        return bytes - messages * self.uncounted

    def covers(self, messages: i64, bytes: i64) -> bool:
        """Return whether both amounts, the second in charges, are at or below this level."""
        return messages <= self.messages and bytes - messages * self.uncounted <= self.bytes

    def unlimited(self) -> bool:
        """Return whether neither amount is limited."""
        return self.messages == UNLIMITED and self.bytes == UNLIMITED

    def less(self, messages: i64, bytes: i64) -> Level:
        """Return the room that so many messages with these charges leave; both amounts may be negative."""
        return Level(self.messages - messages, self.bytes - self.counted(messages, bytes), self.uncounted)

    def largest_charge(self) -> i64:
        """Return the largest charge of one message that this level covers."""
        return self.bytes + self.uncounted

    def as_dict(self) -> dict[str, int | None]:
        """Return the pair as plain data; None is no limit."""
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

    def overfull(self, messages: i64, bytes: i64) -> bool:
        """Return whether the gate must close.

        `>` stop, so that a stop of 0 lets one message in (Qpid C++ and Broker-J).
        """
        return not self.stop.covers(messages, bytes)

    def underfull(self, messages: i64, bytes: i64) -> bool:
        """Return whether the gate must open: `<=` resume, so that a resume of 0 opens when empty (as Broker-J)."""
        return self.resume.covers(messages, bytes)

    def exact(self) -> Level:
        """Return the most that depth and exact credit may have together: stop, or one message where a stop is 0."""
        stop = self.stop
        if stop.messages == 0 or stop.bytes == 0:
            return Level(1, self.capacity.bytes, stop.uncounted)
        return stop

    def bound(self, messages: i64, bytes: i64) -> bool:
        """Return whether an increase by these amounts counts in a unit that is limited here."""
        if messages > 0 and (self.stop.messages != UNLIMITED or self.capacity.messages != UNLIMITED):
            return True
        return bytes > 0 and (self.stop.bytes != UNLIMITED or self.capacity.bytes != UNLIMITED)
