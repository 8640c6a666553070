"""Overflow policies: the action of a queue at its capacity, one class for each.

They are chosen at declaration, and are stateless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.level import Level

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue

ACCEPT: Final = 0
"""The message is accepted now."""
HOLD: Final = 1
"""The message is held until there is room."""
REFUSE: Final = 2
"""The message is refused."""


class OverflowPolicy:
    """The action for a message that would pass the capacity; chosen at declaration."""

    name: str = ""
    has_thresholds: bool = False
    """True if default stop and resume thresholds follow from the capacity."""
    returns_refused: bool = False
    """True if a refused mandatory message is returned to a publisher without confirms, as in Broker-J."""
    dead_letters: bool = False
    """True if a refused message goes to the dead-letter exchange."""
    destroys: bool = False
    """True if the queue is deleted instead of passing its capacity."""
    drops: bool = False
    """True if the oldest messages are dropped for the newest."""
    counts_ready: bool = False
    """True for RabbitMQ's policies: a length by RabbitMQ's names limits ready messages (see length_limit.py)."""
    reserves: bool = False
    """True if credit for the queue has its room reserved: a publish that does not fit is held in any case."""
    pages: bool = False
    """True if messages go to disk instead, within the page limit."""
    at_capacity: int = REFUSE
    """The verdict of a policy that does not look at the queue."""

    def verdict(self, queue: Queue, charge: i64) -> int:
        """Return ACCEPT, HOLD or REFUSE for a message with this charge; changes nothing."""
        return self.at_capacity

    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        """Return the verdict for a commit of several messages; `largest` is the charge of the largest.

        `unacked` is the amount that stays unacknowledged after the commit's settlements. Changes nothing.
        """
        return self.verdict(queue, largest)

    def make_room(self, queue: Queue, charge: i64, now: float) -> None:
        """Drop messages, right before a message that was accepted past the capacity."""


class Block(OverflowPolicy):
    """Hold the publish until there is room. Penstock's default; Broker-J calls it PRODUCER_FLOW_CONTROL."""

    name = "block"
    has_thresholds = True
    reserves = True
    at_capacity = HOLD


class Reject(OverflowPolicy):
    """Refuse the publish, and notify its publisher. RabbitMQ's reject-publish, Broker-J's REJECT.

    The notice is a nack in confirm mode; without confirms a mandatory message is returned.
    """

    name = "reject"
    counts_ready = True
    returns_refused = True


class RejectDeadLetter(Reject):
    """Refuse the publish and dead-letter its message. RabbitMQ's reject-publish-dlx; its publisher is notified too."""

    name = "reject-dead-letter"
    returns_refused = False
    dead_letters = True


class DropHead(OverflowPolicy):
    """Drop ready messages, oldest first. RabbitMQ's default for x-max-length, Qpid C++'s ring.

    Unacknowledged messages cannot be dropped. If they alone fill the capacity, the new message is refused.
    """

    name = "drop-head"
    drops = True
    counts_ready = True

    @override
    def verdict(self, queue: Queue, charge: i64) -> int:
        return self.judge(queue, 1, charge, charge, queue.unacked_level())

    @override
    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        room = queue.thresholds.capacity.less(queue.reserved.messages, queue.reserved.bytes)
        return ACCEPT if room.covers(unacked.messages + 1, unacked.bytes + largest) else REFUSE

    @override
    def make_room(self, queue: Queue, charge: i64, now: float) -> None:
        while not queue.fits(charge):
            queue.drop_oldest(now)


class DropNew(OverflowPolicy):
    """Drop the new message. Artemis' DROP, but never confirmed: a publisher with confirms gets a nack.

    A publisher without confirms gets nothing back, not even a mandatory message: the queue is configured to drop.
    """

    name = "drop-new"


class RingStrict(DropHead):
    """As DropHead, but refuse while any message is unacknowledged. Qpid C++'s ring_strict, until 2012."""

    name = "ring-strict"
    counts_ready = False
    returns_refused = True

    @override
    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        return super().judge(queue, messages, bytes, largest, unacked) if unacked.messages == 0 else REFUSE


class SelfDestruct(OverflowPolicy):
    """Refuse the publish and delete the queue with its messages. Qpid C++'s policy of that name.

    For queues whose content is worthless once it is late: the consumers are cancelled and start again. The publish
    that exceeds the capacity is refused (Qpid C++ reported success to its publisher).
    """

    name = "self-destruct"
    destroys = True


class PagePolicy(OverflowPolicy):
    """Page to disk, and read back in time; `full` is the policy when the queue's pages are at their limit.

    Artemis' PAGE, Qpid's flow_to_disk. Consulted only when there is no room on disk either. A slow disk refuses
    nothing: the message waits until earlier ones are written.
    """

    name = "page"
    pages = True

    def __init__(self, full: OverflowPolicy) -> None:
        self.full = full
        self.returns_refused = full.returns_refused

    @override
    def verdict(self, queue: Queue, charge: i64) -> int:
        pages = queue.pager
        return HOLD if pages is None or pages.within_limit(1, charge) else self.full.verdict(queue, charge)

    @override
    def judge(self, queue: Queue, messages: i64, bytes: i64, largest: i64, unacked: Level) -> int:
        pages = queue.pager
        if pages is None or pages.within_limit(messages, bytes):
            return HOLD
        return self.full.judge(queue, messages, bytes, largest, unacked)


class ReadBack(OverflowPolicy):
    """Hold new messages of a queue that no longer pages, until its pages are read back.

    Otherwise they would overtake. Then the queue's own policy applies.
    """

    name = "read-back"
    at_capacity = HOLD


POLICIES: Final[dict[str, OverflowPolicy]] = {
    policy.name: policy
    for policy in (
        *(Block(), Reject(), RejectDeadLetter(), DropHead(), DropNew(), RingStrict(), SelfDestruct()),
        PagePolicy(Block()),
    )
}
"""The policies by the name in a queue's arguments."""
PAGE: Final[dict[str, OverflowPolicy]] = {
    "block": POLICIES["page"],
    "reject": PagePolicy(Reject()),
    "drop-new": PagePolicy(DropNew()),
}
"""The policies `page` by the policy for messages beyond the page limit."""
READ_BACK: Final[OverflowPolicy] = ReadBack()
