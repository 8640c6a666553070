"""Depth and counters of a queue, and its work in progress in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.queue.unreported_losses import UnreportedLosses
from penstock.flow.gate import GateOwner
from penstock.flow.turns import Turns

if TYPE_CHECKING:
    from penstock.core.consume.bulk_requeue import Returning
    from penstock.core.queue.pager import QueuePager
    from penstock.core.queue.room_making import Clearing
    from penstock.flow.chores import Chore


class QueueCounters(GateOwner):
    """The counting part of a queue."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.deleted: bool = False
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Bytes in memory."""
        self.pager: QueuePager | None = None
        """The pager of its messages on disk; None if it has none there and its policy is not `page`."""
        self.highest_messages: i64 = 0
        self.highest_bytes: i64 = 0
        self.dropped: i64 = 0
        self.expired: i64 = 0
        self.refused: i64 = 0
        self.settled: i64 = 0
        self.dead_lettered: i64 = 0
        self.dead_letters_lost: i64 = 0
        self.unreported = UnreportedLosses()
        self.returning: dict[Returning, None] = {}
        """Requeue operations in progress, a slice a turn; nothing is delivered meanwhile."""
        self.coming_back: i64 = 0
        """Messages being requeued; they still count as unacknowledged."""
        self.settling: Chore | None = None
        """Removal of very many messages that all cursors have settled."""
        self.clearing: Clearing | None = None
        """Removal of very many messages to make room for a large one."""

    def depth_messages(self) -> i64:
        """Return the number of messages, those on disk included."""
        return self.messages if self.pager is None else self.messages + self.pager.messages

    def depth_bytes(self) -> i64:
        """Return the bytes (charges), those on disk included."""
        return self.bytes if self.pager is None else self.bytes + self.pager.bytes

    def count_refusal(self) -> None:
        """Count a refused message."""
        self.refused += 1
        if not self.deleted:
            self.schedule_loss_report()
            self.unreported.refused += 1

    def count_lost_dead_letter(self) -> None:
        """Count a dead letter that could not be published."""
        self.dead_letters_lost += 1
        self.schedule_loss_report()
        self.unreported.letters += 1

    def schedule_loss_report(self) -> None:
        """Schedule a report of the loss about to be counted, and of losses until then."""
        if not self.unreported.any_loss():
            self.turns.losing.append(self)

    def highest(self) -> tuple[int, int]:
        """Return the highest messages and the highest bytes ever (perhaps at different times)."""
        messages = self.messages if self.messages > self.highest_messages else self.highest_messages
        size = self.bytes if self.bytes > self.highest_bytes else self.highest_bytes
        return int(messages), int(size)
