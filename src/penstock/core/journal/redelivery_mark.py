"""What a queue that is kept in the store has to do besides: say how far its consumers have come, and come back.

Theory of operation. A message that a consumer may have seen must come back as a redelivered one, even where the broker
was killed before its acknowledgement was written. So a consumer sees a message that is on the disk only when the store
says that it may have: *announced* are all sequences up to a mark. A delivery beyond the mark waits, in its
connection's output, for the transaction that moves the mark. The first such announcements are exact; while deliveries
keep running into the mark it moves *ahead* of them, twice as far each time, so that a consumer of a long backlog
hardly ever waits. What was announced and not delivered comes back as redelivered after a kill, though it was not: that
is all that is inexact. A message that is not on the disk yet needs no announcement: it is written with one, or not at
all. While the store cannot be written nothing waits for it: consumers go on, and what they got meanwhile may come back
after a kill as if they had not.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.journal.group import QueueStorage
from penstock.core.message import Message, StoredMessage, TrackedMessage
from penstock.core.queue.queue import Queue

LOOKAHEAD_MAX: Final = 65_536
"""Sequences that may be announced without having been delivered."""
AGAIN: Final = 4
WAITS: Final = 16
"""Deliveries that wait, each within AGAIN groups of the one before, until the mark moves ahead."""


def record_delivery(kept: QueueStorage, messages: list[Message | None]) -> bool:
    """Messages are about to go to a consumer; returns whether it must not see them before the open group is written."""
    delivered = kept.delivered
    on_disk = kept.redelivery_mark
    for message in messages:
        if message is not None:
            if message.sequence > delivered:
                delivered = message.sequence
            if message.sequence > on_disk and _comes_back(message):
                on_disk = message.sequence
    if delivered == kept.delivered and on_disk == kept.redelivery_mark:
        return False
    kept.delivered = delivered
    journal = kept.journal
    journal.mark_progress(kept)
    if on_disk > kept.redelivery_mark:
        _wait_less(kept, len(messages))
        return not journal.disk.is_failing()
    if kept.lookahead > 0 and kept.redelivery_mark - delivered < kept.lookahead // 2:
        journal.open.urgent = True  # In time, so that nobody waits.
    return False


def _comes_back(message: Message) -> bool:
    """Tell whether it is on the disk, or on its way there, and does not go with the broker."""
    if not isinstance(message, StoredMessage) or not message.envelope.persistent:
        return False
    return message.group is not None and message.group.sealed


def _wait_less(kept: QueueStorage, messages: i64) -> None:
    """A delivery of so many messages must wait: where that goes on and on, announce ahead."""
    group = kept.journal.open
    group.urgent = True
    kept.waits = kept.waits + 1 if group.number - kept.waited <= AGAIN else 1
    kept.waited = group.number
    kept.lookahead = min(2 * kept.lookahead + messages, LOOKAHEAD_MAX) if kept.waits > WAITS else 0


def reset_lookahead(queues: list[Queue]) -> None:
    """The broker stops: what was announced ahead of deliveries is taken back."""
    for queue in queues:
        kept = queue.storage
        if kept is not None and kept.redelivery_mark != kept.delivered:
            kept.lookahead = 0
            kept.journal.mark_progress(kept)


def restore(queue: Queue, messages: list[StoredMessage], now: float) -> None:
    """Put in what the store has kept, in order, whatever the thresholds say; the gate is judged by it afterwards."""
    delivered: i64 = 0 if queue.storage is None else queue.storage.delivered
    for message in messages:
        if isinstance(message, TrackedMessage) and message.share is not None:
            message.share.enter(now)
        if message.redeliveries == 0 and message.sequence <= delivered:
            message.redeliveries = 1
        queue.ready_queue.append(message)
        queue.messages += 1
        queue.bytes += message.charge
        if queue.storage is not None:
            queue.storage.vhost_usage.add(message.charge, now)
        if message.sequence > queue.tail:
            queue.tail = message.sequence
    if queue.length is not None:
        queue.length.read_back(messages)
        queue.length.trim_later()
    queue.update_gate(now)
