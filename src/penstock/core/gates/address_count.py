"""Count of the messages that are in queues already when their address gets a bound.

Theory of operation. From the bound on, new messages have a share in the depth of their address. Those that came before
have none. The count visits them in slices, and gives each a share in its place: ready messages queue by queue, then
unacknowledged ones session by session. A message without a share subtracts nothing when it leaves, so the depth is at
any time the sum of what has a share, and it is complete at the end.

The visit of a queue works on a copy of its list. A message that leaves meanwhile is marked, so that it does not count
when it is reached. Deliveries on their way back, dead letters that wait, and deliveries of a suspended link are in no
session: they count when they return to their queue. Copies of one message share its content, and so they share a part
in the depth. Of `SEEN_MAX` messages this is known; each copy of further ones counts by itself until it leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.core.gates.address_depth import AddressDepth, AddressShare
from penstock.core.gates.topic_depths import KnownTopics
from penstock.core.message import Message, TrackedMessage
from penstock.core.queue.outlets import LateCount
from penstock.core.queue.queue import Queue
from penstock.flow.work import Steps

if TYPE_CHECKING:
    from penstock.core.consume.session import Session
    from penstock.core.publish.context import PublishContext

SEEN_MAX: Final = 200_000
"""Messages whose copies are recognized in other queues: some 80 octets each while the count lasts."""
LISTED_A_UNIT: Final = 32
"""Messages listed with one unit of work."""
COUNTED_A_UNIT: Final = 4
"""Messages counted with one unit of work."""
VISIT_WORK: Final = 2
"""Units of work of a queue, or of a batch of deliveries."""


class AddressCount(LateCount):
    """The count in one virtual host."""

    def __init__(
        self,
        broker: PublishContext,
        depths: dict[str, AddressDepth],
        topics: KnownTopics | None = None,
        recognizes: int = SEEN_MAX,
    ) -> None:
        self._broker = broker
        self._depths = depths
        """Depths of the addresses with a bound, by exchange."""
        self._topics = topics
        """Depths of routing keys with a bound; None without any."""
        self._recognizes = recognizes
        self._seen: dict[int, AddressShare] | None = {}
        """Shares by the identity of the content; None after the count."""
        self._unconcerned: dict[Queue, tuple[int, bool]] = {}
        """Queues in which nothing counts yet: their newest sequence and `tracks_removals` before the visit."""

    def run(self, queues: list[Queue]) -> Steps[None]:
        """Count what is in these queues, and what no open session has settled."""
        for queue in queues:
            yield from self._visit_queue(queue)
        for session in list(self._broker.sessions):
            yield from self._visit_session(session)
        for queue, (newest, tracked) in self._unconcerned.items():
            if queue.unacked_messages == 0:
                queue.membership.late_count = None
                queue.tracks_removals = tracked or queue.tail != newest
        self._unconcerned = {}
        self._seen = None

    @override
    def count(self, queue: Queue, message: Message, now: float) -> None:
        if message.share is not None:
            return
        address = message.envelope
        depth = None if self._topics is None else self._topics.depth(address.exchange, address.routing_key, now)
        if depth is None:
            depth = self._depths.get(address.exchange)
        if depth is None:
            return
        if isinstance(message, TrackedMessage) and message.is_tombstone:
            return
        share = None if self._seen is None else self._seen.get(id(message.content))
        if share is None or share.depth is not depth or share.copies == 0:  # The identity may be another content's now.
            share = AddressShare(depth, message.charge)
            if self._seen is not None and len(self._seen) < self._recognizes:
                self._seen[id(message.content)] = share
        message.share = share
        share.enter(now)
        self._unconcerned.pop(queue, None)

    def _visit_queue(self, queue: Queue) -> Steps[None]:
        self._unconcerned[queue] = (int(queue.tail), queue.tracks_removals)
        queue.membership.late_count = self
        queue.tracks_removals = True
        work = self._broker.work
        left = queue.ready_queue.messages()
        work.done += VISIT_WORK + len(left) // LISTED_A_UNIT
        while left:
            if work.spend(1):
                yield
            for message in left[-COUNTED_A_UNIT:]:
                self.count(queue, message, self._broker.now)
            del left[-COUNTED_A_UNIT:]

    def _visit_session(self, session: Session) -> Steps[None]:
        work = self._broker.work
        for batch in session.unsettled.batches():
            if work.spend(VISIT_WORK + len(batch.messages) // COUNTED_A_UNIT):
                yield
            queue = batch.consumer.queue
            for message in batch.messages:
                if message is not None and queue.membership.late_count is self:
                    self.count(queue, message, self._broker.now)
