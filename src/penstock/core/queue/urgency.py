"""The turns of urgent messages (priority 5 or more) and the others in a quorum queue: two for one (decision 147)."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.message import Message

URGENT_FROM: Final = 5
"""Lowest priority of an urgent message: RabbitMQ 4, and AMQP 1.0 where brokers have two classes (section 3.2.1)."""
URGENT_IN_A_ROW: Final = 2
"""Most urgent messages in a row while an older message of the other class waits."""


class UrgencyTurns:
    """The turns of the two classes in one queue."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken: i64 = 0
        """Urgent messages taken since the last other message, counted up to `URGENT_IN_A_ROW`."""

    def is_urgent(self, urgent: Message | None, other: Message | None) -> bool:
        """Return whether the urgent one of two waiting messages is next; None means that no message of the class waits.

        Beyond `URGENT_IN_A_ROW`, an urgent message is next only if it is older.
        """
        if urgent is None or other is None or self.taken < URGENT_IN_A_ROW:
            return urgent is not None
        return urgent.sequence < other.sequence

    def count(self, urgent: i64) -> None:
        """Count so many urgent messages that were taken; 0 for another message, which begins a new row."""
        taken = self.taken + urgent if urgent > 0 else 0
        self.taken = taken if taken < URGENT_IN_A_ROW else URGENT_IN_A_ROW
