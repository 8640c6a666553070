"""What a queue holds and what has become of messages in it, counted; and what is under way in slices."""

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
    """The counting side of a queue."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.deleted: bool = False
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """What is in memory."""
        self.pager: QueuePager | None = None
        """What of it is on the disk only; None where nothing ever was and the policy is not to page."""
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
        """What brings messages back from consumers, a slice a turn; nothing is delivered meanwhile."""
        self.coming_back: i64 = 0
        """Messages on their way back; they count among what is with consumers."""
        self.settling: Chore | None = None
        """What drops messages that all cursors have settled, where those are many."""
        self.clearing: Clearing | None = None
        """What drops messages to make room for a large one, where those are many."""

    def depth_messages(self) -> i64:
        """Return how many messages it holds, those on the disk included."""
        return self.messages if self.pager is None else self.messages + self.pager.messages

    def depth_bytes(self) -> i64:
        """Return how many bytes (charges) it holds, those on the disk included."""
        return self.bytes if self.pager is None else self.bytes + self.pager.bytes

    def count_refusal(self) -> None:
        """Count something that was refused."""
        self.refused += 1
        if not self.deleted:
            self.schedule_loss_report()
            self.unreported.refused += 1

    def count_lost_dead_letter(self) -> None:
        """Count a dead letter that went nowhere."""
        self.dead_letters_lost += 1
        self.schedule_loss_report()
        self.unreported.letters += 1

    def schedule_loss_report(self) -> None:
        """Have the loss that is about to be counted told, with whatever is counted until then."""
        if not self.unreported.any_loss():
            self.turns.losing.append(self)

    def highest(self) -> tuple[int, int]:
        """Return the highest depth ever: messages and bytes (not at one moment)."""
        messages = self.messages if self.messages > self.highest_messages else self.highest_messages
        size = self.bytes if self.bytes > self.highest_bytes else self.highest_bytes
        return int(messages), int(size)
