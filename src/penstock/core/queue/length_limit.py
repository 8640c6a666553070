"""The length limit of a queue as in RabbitMQ: max-length and max-length-bytes of ready messages.

Theory of operation. `max-length` and `max-length-bytes` count ready messages: neither unacknowledged messages, nor
messages that a consumer takes at once. RabbitMQ offers a message to the consumers before it counts; in Penstock
deliveries happen at the end of the turn. So a drop-head queue with a consumer that has credit keeps `EXTRA_MESSAGES` or
`EXTRA_BYTES` more, or as many messages as its consumers have credit for, if that is more, and is trimmed after the
delivery. A rejecting queue accepts as many extra messages. A requeued message is ready again and counts at once. The
capacity limits the whole depth meanwhile.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.message import Message, StoredMessage
from penstock.core.queue.context import QueueContext
from penstock.core.queue.overflow.policy import OverflowPolicy
from penstock.core.queue.queue import Queue
from penstock.flow.level import UNLIMITED
from penstock.flow.work import Chore

EXTRA_MESSAGES: Final = 1_000
"""Messages beyond the limit of a drop-head queue until consumers have used their credit."""
EXTRA_BYTES: Final = 1024 * 1024
"""Bytes of bodies beyond the limit, likewise."""
TRIMMED_AT_ONCE: Final = 500
"""Most messages dropped from the head in one step; the others follow in later turns."""


class Length:
    """The length limit of one queue; only queues with a limit have this object."""

    __slots__ = ("queue", "most", "bodies", "policy", "drops", "_weighs", "_formats", "_trimming")

    def __init__(self, broker: QueueContext, queue: Queue) -> None:
        self.queue = queue
        most = queue.settings.length
        formats = broker.formats
        self.most = most
        """Limits of the ready messages and of the bytes of their bodies."""
        self.bodies: i64 = 0
        """Bytes of ready bodies; counted only if limited."""
        self.policy: OverflowPolicy = queue.settings.at_length
        """The overflow policy at the limit; the capacity has its own policy."""
        self.drops: bool = self.policy.drops
        """True if the oldest messages are dropped; otherwise the newest are refused."""
        self._weighs: bool = most.bytes != UNLIMITED
        self._formats = formats
        self._trimming: Chore = Trimming(queue)
        if self._weighs:
            for message in queue.ready_queue.messages():
                self.bodies += formats.body_bytes(message.content)

    def ready(self) -> i64:
        """Return the number of ready messages."""
        return self.queue.messages - self.queue.unacked_messages - self.queue.delayed_messages

    def read_back(self, messages: list[StoredMessage]) -> None:
        """Count messages loaded from disk; the caller schedules trimming."""
        if self._weighs:
            for message in messages:
                self.bodies += self._formats.body_bytes(message.content)

    def fast_path_max_messages(self) -> i64:
        """Return the depth up to which the limit need not be checked."""
        return -1 if self._weighs else self.most.messages

    def over(self) -> bool:
        """Return whether the ready messages exceed the limit."""
        return self.ready() > self.most.messages or self.bodies > self.most.bytes

    def full(self) -> bool:
        """Return whether one more message would exceed the limit."""
        return self.ready() >= self.most.messages or self.bodies >= self.most.bytes

    def takes(self, messages: i64, bodies: i64, now: float) -> bool:
        """Return whether messages with these bytes of bodies may enter; always true for drop-head."""
        if self.drops:
            return True
        more = self.ready() + messages - self.most.messages
        if more <= 0 and self.bodies + bodies <= self.most.bytes:
            return True
        return self.wanted(1 if more < 1 else more, now)

    def body_bytes(self, content: bytes) -> i64:
        """Return the bytes of a content's body; 0 if bodies are not limited."""
        return self._formats.body_bytes(content) if self._weighs else 0

    def takes_content(self, content: bytes, now: float) -> bool:
        """Return whether a message with this content may enter."""
        return self.takes(1, self.body_bytes(content), now)

    def wanted(self, messages: i64, now: float) -> bool:
        """Return whether the consumers have credit for so many messages now."""
        rotation = self.queue.rotation
        return rotation is not None and rotation.want(messages, now)

    def on_enqueued(self, content: bytes, now: float) -> None:
        """Count a new message; the oldest are dropped at once unless a consumer is about to take messages."""
        if self._weighs:
            self.bodies += self._formats.body_bytes(content)
        if self.drops and self.over():
            if not self.wanted(1, now):
                self.trim_some(now)
            elif self._exceeds_extra(now):
                self.trim(1, now)

    def _exceeds_extra(self, now: float) -> bool:
        """Return whether there are more extra messages than the bound, and more than consumers have credit for."""
        more = self.ready() - self.most.messages
        if more > EXTRA_MESSAGES:
            return not self.wanted(more, now)
        return self.bodies - self.most.bytes > EXTRA_BYTES and not self.wanted(self.ready(), now)

    def on_requeued(self, message: Message, now: float) -> None:
        """Count a requeued message, whatever credit consumers have (as in RabbitMQ)."""
        if self._weighs:
            self.bodies += self._formats.body_bytes(message.content)
        if self.drops:
            self.trim_some(now)

    def on_removed(self, message: Message) -> None:
        """Count a message out of the ready ones."""
        if self._weighs:
            self.bodies -= self._formats.body_bytes(message.content)

    def on_delivered(self, messages: list[Message | None]) -> None:
        """Count delivered messages out of the ready ones."""
        if self._weighs:
            for message in messages:
                if message is not None:
                    self.on_removed(message)

    def trim_some(self, now: float) -> None:
        """Drop the oldest messages above the limit: a bounded number now, the rest in later turns."""
        if self.drops and self.trim(TRIMMED_AT_ONCE, now) == TRIMMED_AT_ONCE:
            self.trim_later()

    def trim_later(self) -> None:
        """Drop the oldest messages above the limit in later turns."""
        if self.drops and self.over():
            self.queue.turns.chores.add(self._trimming)

    def trim(self, most: i64, now: float) -> i64:
        """Drop up to `most` of the oldest messages above the limit; returns their number."""
        dropped: i64 = 0
        queue = self.queue
        while self.over() and dropped < most and queue.ready_queue.available() > 0:
            queue.drop_oldest(now)
            dropped += 1
        if dropped:
            queue.update_gate(now)
        return dropped

    def acts(self) -> str:
        """Return the action above the limit, as a clause."""
        return "the oldest are dropped" if self.drops else "the newest are refused"

    def clause(self) -> str:
        """Return the ready messages and the limit as a clause of a sentence."""
        bodies = f", {int(self.bodies):,} bytes of bodies," if self._weighs else ""
        ready = self.ready()
        return (
            f"{int(ready):,} message{'' if ready == 1 else 's'}{bodies} ready, of a max-length of "
            f"{self.most.describe()}, which does not count what consumers have"
        )


class Trimming(Chore):
    """Trimming of a queue in slices, while it exceeds its limit."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue

    def work(self, most: i64, now: float) -> i64:
        """Drop messages; each is one unit of work."""
        length = self.queue.length
        return 0 if length is None else length.trim(most, now)

    @override
    def has_more(self) -> bool:
        length = self.queue.length
        return length is not None and length.drops and length.over()


def limit(broker: QueueContext, queue: Queue) -> None:
    """Apply the length limit of a queue's settings; excess messages are dropped in later turns."""
    most = queue.settings.length
    if most.messages == UNLIMITED and most.bytes == UNLIMITED:
        queue.length = None
    else:
        queue.length = Length(broker, queue)
        queue.length.trim_some(broker.now)
    queue.update_gate(broker.now)
