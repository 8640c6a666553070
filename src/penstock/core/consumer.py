"""A consumer: who gets messages of a queue, and under which conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.message import Message
from penstock.flow.credit import Credit
from penstock.flow.level import UNLIMITED

if TYPE_CHECKING:
    from penstock.core.queue import Queue
    from penstock.core.session import Session

BATCH_MESSAGES: Final = 256
"""Most messages that one consumer gets in one round, so that a fast one does not keep the others waiting."""
BATCH_BYTES: Final = 256 * 1024
"""A batch ends with the message that takes it past this: what is written at once for one connection stays bounded."""


class Consumer:
    """A subscription of a session to a queue."""

    def __init__(self, tag: str, session: Session, queue: Queue, no_ack: bool, exclusive: bool, window: i64) -> None:
        self.tag = tag
        self.session = session
        self.queue = queue
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.credit = Credit(window)
        """Its own prefetch (basic.qos with global=false)."""
        self.arguments: dict[str, object] = {}
        self.delivered: i64 = 0

    def room(self) -> i64:
        """Return how many messages it may get now."""
        if not self.session.receiving():
            return 0
        if self.no_ack:
            return UNLIMITED
        own = self.credit.left()
        shared = self.session.credit.left()
        return own if own < shared else shared

    def obstacles(self) -> list[str]:
        """Say what keeps it from getting messages: nothing, or a phrase for each condition that `room` looks at."""
        found: list[str] = []
        if not self.session.receiving():
            found.append(self.session.why_not_receiving())
        if not self.no_ack and self.credit.left() == 0:
            found.append(f"out of credit: {self.credit.out} unacknowledged of a prefetch of {self.credit.window}")
        if not self.no_ack and self.session.credit.left() == 0:
            shared = self.session.credit
            found.append(f"its channel is out of credit: {shared.out} unacknowledged of a prefetch of {shared.window}")
        return found


class Batch:
    """Messages on their way to one consumer, under consecutive delivery tags; kept until all are settled.

    A settled message's place is emptied, so that its memory is not kept by a neighbour.
    """

    __slots__ = ("consumer", "first", "messages", "left", "charge")

    def __init__(self, consumer: Consumer, first: i64, messages: list[Message | None], charge: i64) -> None:
        self.consumer = consumer
        self.first: i64 = first
        """Delivery tag of the first message."""
        self.messages = messages
        self.left: i64 = len(messages)
        """How many are not settled yet."""
        self.charge: i64 = charge
        """The sum of their charges."""

    def last(self) -> i64:
        """Return the delivery tag of the last message."""
        return self.first + len(self.messages) - 1
