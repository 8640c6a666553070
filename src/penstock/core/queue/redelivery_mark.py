"""The redelivery mark of a durable queue.

Theory of operation. A message that a consumer may have seen must carry `redelivered` when it is delivered again after a
crash, even if its acknowledgement was not written. The store keeps one sequence number per queue, the mark: after
recovery all messages up to it are redelivered. A delivery beyond the mark waits, in its connection's output, for the
transaction that moves the mark.

The first marks are exact. While deliveries keep reaching the mark, it moves *ahead* of them, twice as far each time, so
that a consumer of a long backlog hardly ever waits. Messages up to the mark that were not delivered also come back as
redelivered after a crash: that is the only inexactness.

A message that is not on disk yet is written together with its mark, or not at all. While the store cannot be written,
deliveries do not wait: after a crash they may come back without `redelivered`.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.journal.group import GROUP_OPEN
from penstock.core.message import Message, StoredMessage
from penstock.core.queue.queue import Queue
from penstock.core.queue.storage import QueueStorage

LOOKAHEAD_MAX: Final = 65_536
"""Largest distance of the mark ahead of the deliveries."""
AGAIN: Final = 4
WAITS: Final = 16
"""Deliveries that wait, each within AGAIN groups of the one before, until the mark moves ahead."""


def record_delivery(storage: QueueStorage, messages: list[Message | None]) -> bool:
    """Record a delivery; returns whether it must wait until the open group is written."""
    delivered = storage.delivered
    on_disk = storage.redelivery_mark
    for message in messages:
        if message is not None:
            if message.sequence > delivered:
                delivered = message.sequence
            if message.sequence > on_disk and _survives_crash(message):
                on_disk = message.sequence
    if delivered == storage.delivered and on_disk == storage.redelivery_mark:
        return False
    storage.delivered = delivered
    journal = storage.journal
    journal.mark_progress(storage)
    if on_disk > storage.redelivery_mark:
        _wait_less(storage, len(messages))
        return not journal.disk.is_failing()
    if storage.lookahead > 0 and storage.redelivery_mark - delivered < storage.lookahead // 2:
        journal.open.urgent = True  # In time for deliveries that wait.
    return False


def _survives_crash(message: Message) -> bool:
    """Return whether a message survives a crash: it is on disk or being written, and durable."""
    if not isinstance(message, StoredMessage) or not message.envelope.persistent:
        return False
    return message.group is not None and message.group.state != GROUP_OPEN


def _wait_less(storage: QueueStorage, messages: i64) -> None:
    """Move the mark further ahead if deliveries of so many messages keep waiting."""
    group = storage.journal.open
    group.urgent = True
    storage.waits = storage.waits + 1 if group.number - storage.waited <= AGAIN else 1
    storage.waited = group.number
    storage.lookahead = min(2 * storage.lookahead + messages, LOOKAHEAD_MAX) if storage.waits > WAITS else 0


def reset_lookahead(queues: list[Queue]) -> None:
    """Reset the marks to the last delivery when the broker stops."""
    for queue in queues:
        storage = queue.storage
        if storage is None:
            continue
        # A mark that is being written counts: it will be in the store.
        if storage.redelivery_mark != storage.delivered or storage.announcing > storage.delivered:
            storage.lookahead = 0
            storage.journal.mark_progress(storage)


def restore(queue: Queue, messages: list[StoredMessage], now: float) -> None:
    """Restore messages from the store, in order, without regard to thresholds; the gate is updated afterwards."""
    delivered: i64 = 0 if queue.storage is None else queue.storage.delivered
    charge: i64 = 0
    for message in messages:
        if message.share is not None:
            message.share.enter(now)
        if message.sequence <= delivered:
            message.mark_delivered()
        charge += message.charge
        if queue.storage is not None:
            queue.storage.vhost_usage.add(message.charge, now)
    queue.restore(messages, charge)
    if queue.length is not None:
        queue.length.read_back(messages)
        queue.length.trim_later()
    queue.update_gate(now)
