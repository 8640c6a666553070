"""Membership of a queue in shared limits: of its virtual host, of the node's memory, and of addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.gates.address_depth import LEFT
from penstock.core.message import Message
from penstock.flow.level import UNLIMITED
from penstock.flow.shared_limit import LimitMember, SharedLimit

if TYPE_CHECKING:
    from penstock.core.queue.context import LateCount
    from penstock.core.queue.queue import Queue

NO_POOLS: Final[list[SharedLimit]] = []
"""Shared empty list of queues without shared limits; never changed."""


class Membership(LimitMember):
    """The counted amount of a queue in its shared limits: its depth, and possibly slack (see flow/shared_limit.py)."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.pools = NO_POOLS
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.has_slack: bool = False
        """True if the counted amount may include slack: the amount is updated only when the depth has grown past it."""
        self.late_count: LateCount | None = None
        """The count of messages that entered before their address got a bound; None once none of them can be left."""

    def count_returned(self, message: Message, now: float) -> None:
        """Count a message that returns to the queue in the depth of its address, unless it is counted there already."""
        if self.late_count is not None:
            self.late_count.count(self.queue, message, now)

    def leave_addresses(self, messages: list[Message | None], now: float) -> None:
        """Remove messages that leave the queue from the depths of their addresses."""
        for message in messages:
            if message is not None and message.share is not None:
                message.share.leave(now)
            elif message is not None and self.late_count is not None:
                message.share = LEFT

    @override
    def reclaim_slack(self) -> None:
        self._count_as(self._held_messages(), self._held_bytes(), False, 0.0)
        self.bound()

    def slack_bytes(self) -> i64:
        """Return the bytes beyond the depth with which the queue is counted in its shared limits."""
        return self.bytes - self._held_bytes() if self.has_slack else 0

    def move(self, pools: list[SharedLimit], now: float) -> None:
        """Leave the present shared limits and join these."""
        if pools != self.pools:
            self._leave(now)
            self.pools = pools
            for pool in pools:
                pool.join()

    def review(self, now: float) -> None:
        """Update the counted amount after a change of the depth, if needed."""
        deleted = self.queue.deleted
        messages, size = self._held_messages(), self._held_bytes()
        if deleted and messages == 0:
            self._leave(now)
        elif deleted or not self.has_slack or messages >= self.messages or size >= self.bytes:
            self._count(now)

    def bound(self) -> None:
        """Limit the hot path to the counted amount; without slack every decrease of the depth is counted too."""
        queue = self.queue
        if self.messages < queue.fast_path_max_messages:
            queue.fast_path_max_messages = self.messages
        if self.bytes < queue.fast_path_max_bytes:
            queue.fast_path_max_bytes = self.bytes
        room = queue.reserved
        if self.messages < room.most_messages:
            room.most_messages = self.messages
        if self.bytes < room.most_bytes:
            room.most_bytes = self.bytes
        if self.messages < queue.withheld_max_messages:
            queue.withheld_max_messages = self.messages
        if self.bytes < queue.withheld_max_bytes:
            queue.withheld_max_bytes = self.bytes
        if self.bytes == queue.bytes:
            queue.recheck_on_settle = True

    def _count(self, now: float) -> None:
        """Count the depth, with as much slack as all shared limits permit."""
        queue = self.queue
        messages: i64 = UNLIMITED
        size: i64 = UNLIMITED
        for pool in self.pools:
            slack = pool.slack()
            if slack.messages < messages:
                messages = slack.messages
            if slack.bytes < size:
                size = slack.bytes
        if queue.deleted or messages == 0 or size == 0:
            messages = 0
            size = 0
        self._count_as(self._held_messages() + messages, self._held_bytes() + size, size > 0, now)

    def _held_messages(self) -> i64:
        """Return the messages in memory, unwritten pages included."""
        queue = self.queue
        return queue.messages if queue.pager is None else queue.messages + queue.pager.unwritten_messages

    def _held_bytes(self) -> i64:
        queue = self.queue
        return queue.bytes if queue.pager is None else queue.bytes + queue.pager.unwritten_bytes

    def _count_as(self, messages: i64, bytes: i64, loose: bool, now: float) -> None:
        more_messages = messages - self.messages
        more_bytes = bytes - self.bytes
        self.messages = messages
        self.bytes = bytes
        self.has_slack = loose
        for pool in self.pools:
            pool.count(self, more_messages, more_bytes, loose, now)

    def _leave(self, now: float) -> None:
        self._count_as(0, 0, False, now)
        for pool in self.pools:
            pool.part(self)
        self.pools = NO_POOLS
