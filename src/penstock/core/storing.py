"""What a queue that is kept in the store has to do besides: say how far it has come, and come back."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.group import Kept
from penstock.core.message import MarkedMessage, Message, StoredMessage
from penstock.core.queue import Queue


def note_out(kept: Kept, messages: list[Message | None]) -> None:
    """Messages went to a consumer that must acknowledge them: after a restart they are redelivered ones."""
    highest = kept.delivered
    for message in messages:
        if message is not None and message.sequence > highest:
            highest = message.sequence
    if highest > kept.delivered:
        kept.delivered = highest
        kept.journal.touch(kept)


def restore(queue: Queue, messages: list[StoredMessage], now: float) -> None:
    """Put in what the store has kept, in order, whatever the thresholds say; the gate is judged by it afterwards."""
    delivered: i64 = 0 if queue.kept is None else queue.kept.delivered
    for message in messages:
        if isinstance(message, MarkedMessage) and message.share is not None:
            message.share.enter(now)
        if message.returns == 0 and message.sequence <= delivered:
            message.returns = 1
        queue.backlog.append(message)
        queue.messages += 1
        queue.bytes += message.charge
        if message.sequence > queue.tail:
            queue.tail = message.sequence
    queue.review(now)
