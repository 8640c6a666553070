"""The length limit of a queue, as RabbitMQ knows it: how many messages, and octets of their bodies, may be ready.

Theory of operation. `max-length` and `max-length-bytes` count what is ready: neither what consumers have, nor what a
consumer takes at once. RabbitMQ offers a message to its consumers before it counts; here deliveries go out at the end
of the turn. So a queue that drops its oldest keeps what its consumers have room for until they have been offered it,
and is trimmed then; a queue that refuses takes so many more as its consumers have room for. What comes back from a
consumer is ready again, and counts at once. The capacity bounds the whole depth meanwhile, as always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.message import Message, StoredMessage
from penstock.flow.chores import Chore
from penstock.flow.level import UNLIMITED

if TYPE_CHECKING:
    from penstock.core.broker import Broker
    from penstock.core.queue.queue import Queue

TRIMMED_AT_ONCE: Final = 500
"""Messages that are dropped from the head in one step at most; the others follow in the next turns."""
CONSUMERS_ASKED: Final = 64
"""Consumers that are asked for their room for one message at most."""


class Length:
    """The length limit of one queue; made for queues that have one."""

    __slots__ = ("queue", "most", "bodies", "drops", "_weighs", "_writer", "_trimming")

    def __init__(self, broker: Broker, queue: Queue) -> None:
        self.queue = queue
        most = queue.settings.length
        writer = broker.dead_letters.writer
        self.most = most
        """What may be ready: messages, and octets of bodies."""
        self.bodies: i64 = 0
        """Octets of the bodies that are ready; counted only where they are bounded."""
        self.drops: bool = queue.settings.overflow.drops
        """Whether the oldest are dropped for the newest; otherwise the newest are refused."""
        self._weighs: bool = most.bytes != UNLIMITED
        self._writer = writer
        self._trimming: Chore = Trimming(queue)
        if self._weighs:
            for message in queue.ready_queue.messages():
                self.bodies += writer.body_bytes(message.content)

    def ready(self) -> i64:
        """Return how many messages are ready."""
        return self.queue.messages - self.queue.unacked_messages

    def read_back(self, messages: list[StoredMessage]) -> None:
        """Messages have come back from the disk; the caller sees to it that they are trimmed."""
        if self._weighs:
            for message in messages:
                self.bodies += self._writer.body_bytes(message.content)

    def fast_path_max_messages(self) -> i64:
        """Return up to which depth the limit need not be looked at."""
        return -1 if self._weighs else self.most.messages

    def over(self) -> bool:
        """Tell whether more is ready than may be."""
        return self.ready() > self.most.messages or self.bodies > self.most.bytes

    def full(self) -> bool:
        """Tell whether one more message is one too many."""
        return self.ready() >= self.most.messages or self.bodies >= self.most.bytes

    def takes(self, messages: i64, bodies: i64, now: float) -> bool:
        """Tell whether so many more may come in, with so many octets of bodies: always where the oldest make room."""
        if self.drops:
            return True
        more = self.ready() + messages - self.most.messages
        if more <= 0 and self.bodies + bodies <= self.most.bytes:
            return True
        return self.wanted(1 if more < 1 else more, now)

    def body_bytes(self, content: bytes) -> i64:
        """Return the octets of a content's body; 0 where they are not bounded."""
        return self._writer.body_bytes(content) if self._weighs else 0

    def takes_content(self, content: bytes, now: float) -> bool:
        """Tell whether a message with this content may come in."""
        return self.takes(1, self.body_bytes(content), now)

    def wanted(self, messages: i64, now: float) -> bool:
        """Tell whether the consumers have room for so many messages now."""
        rotation = self.queue.rotation
        if rotation is None:
            return False
        room: i64 = 0
        left = CONSUMERS_ASKED
        for rank in rotation.ranks:
            consumer = rank.next
            for _ in range(min(int(rank.size), left)):
                assert consumer is not None
                room += consumer.credit_left(now)
                if room >= messages:
                    return True
                consumer = consumer.after
                left -= 1
        return False

    def came(self, content: bytes, now: float) -> None:
        """A message has come in: the oldest make room at once, unless a consumer is about to be offered some."""
        if self._weighs:
            self.bodies += self._writer.body_bytes(content)
        if self.drops and self.over() and not self.wanted(1, now):
            self.trim_some(now)

    def came_back(self, message: Message, now: float) -> None:
        """A message is ready again: it counts at once, whoever waits (as in RabbitMQ)."""
        if self._weighs:
            self.bodies += self._writer.body_bytes(message.content)
        if self.drops:
            self.trim_some(now)

    def left(self, message: Message) -> None:
        """A message is ready no more."""
        if self._weighs:
            self.bodies -= self._writer.body_bytes(message.content)

    def left_all(self, messages: list[Message | None]) -> None:
        """Messages are ready no more: consumers have them."""
        if self._weighs:
            for message in messages:
                if message is not None:
                    self.left(message)

    def trim_some(self, now: float) -> None:
        """Drop the oldest while there are too many: a bounded number now, the others in the turns that come."""
        if self.drops and self.trim(TRIMMED_AT_ONCE, now) == TRIMMED_AT_ONCE:
            self.trim_later()

    def trim_later(self) -> None:
        """Drop the oldest while there are too many, in the turns that come."""
        if self.drops and self.over():
            self.queue.turns.chores.add(self._trimming)

    def trim(self, most: i64, now: float) -> i64:
        """Drop up to so many of the oldest while there are too many; returns how many that were."""
        dropped: i64 = 0
        queue = self.queue
        while self.over() and dropped < most and queue.ready_queue.available() > 0:
            queue.drop_oldest(now)
            dropped += 1
        if dropped:
            queue.update_gate(now)
        return dropped

    def clause(self) -> str:
        """Say how much is ready, of how much: in a clause, for people."""
        bodies = f", {int(self.bodies):,} bytes of bodies," if self._weighs else ""
        ready = self.ready()
        return (
            f"{int(ready):,} message{'' if ready == 1 else 's'}{bodies} ready, of a max-length of "
            f"{self.most.describe()}, which does not count what consumers have"
        )


class Trimming(Chore):
    """The dropping of what is too much in a queue, for as long as it has a limit and is above it."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`: a message is a unit."""
        length = self.queue.length
        return 0 if length is None else length.trim(most, now)

    def has_more(self) -> bool:
        """See `Chore.has_more`."""
        length = self.queue.length
        return length is not None and length.drops and length.over()


def limit(broker: Broker, queue: Queue) -> None:
    """Have a queue's length bounded as its settings say; what is too much is dropped in the turns that come."""
    most = queue.settings.length
    if most.messages == UNLIMITED and most.bytes == UNLIMITED:
        queue.length = None
    else:
        queue.length = Length(broker, queue)
        queue.length.trim_some(broker.now)
    queue.update_gate(broker.now)
