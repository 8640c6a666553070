"""Interfaces of what takes, returns or counts messages of a queue: consumers, requeueing, dead letters and others.

They are on the layer of the queue. Consuming and publishing implement them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr, trait

from penstock.core.message import Message
from penstock.flow.chores import Chore
from penstock.flow.level import Level

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class Subscriber:
    """A consumer of a queue."""

    def credit_left(self, now: float) -> i64:
        """Return how many messages it may get now."""
        raise NotImplementedError


class Subscriptions:
    """The consumers of one queue that may have credit, in their order."""

    def want(self, messages: i64, now: float) -> bool:
        """Return whether the consumers have credit for so many messages now."""
        raise NotImplementedError

    def bar_to_cursors(self) -> str:
        """Return which of them no cursor can read beside; empty if there are none."""
        raise NotImplementedError


class Requeueing(Chore):
    """A requeue operation in progress, a slice a turn."""

    def put_back(self, queue: Queue, now: float) -> i64:
        """Requeue the oldest messages of one queue; returns the work."""
        raise NotImplementedError

    def oldest(self, queue: Queue) -> i64:
        """Return the sequence of the next message for a queue."""
        raise NotImplementedError

    def take(self, queue: Queue) -> list[list[Message | None]]:
        """Remove and return the messages of a queue that is purged."""
        raise NotImplementedError


class LateCount:
    """The count of messages that were in queues before their address got a bound."""

    def count(self, queue: Queue, message: Message, now: float) -> None:
        """Count a message that is in a queue, unless it counts already, or has left."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ContentChange:
    """Change of a message that its settlement asks for."""

    def content_of(self, content: bytes) -> bytes | None:
        """Return the changed content; None to leave it."""
        raise NotImplementedError


@trait
class DeadLetterSink:
    """The publisher of a queue's dead letters."""

    def dead_letter(self, message: Message, reason: str, placed: bool, added: ContentChange | None = None) -> None:
        """Record a death; `placed`: the message still counts in the queue, as unacknowledged.

        `added` are headers for the dead letter.
        """
        raise NotImplementedError

    def crowded(self) -> bool:
        """Return whether so many uncounted dead letters wait that no message may displace another."""
        raise NotImplementedError

    def waiting(self) -> Level:
        """Return the dead letters that wait for room in their targets."""
        raise NotImplementedError
