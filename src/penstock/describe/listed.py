"""Messages of a queue as lists have them: the depth, or all that a stream retains (as in RabbitMQ)."""

from __future__ import annotations

from penstock.core.queue.queue import Queue
from penstock.core.queue.stream_log import StreamLog
from penstock.core.queue.stream_queue import StreamQueue


def log_in(queue: Queue) -> StreamLog | None:
    """Return the log of a stream; None for any other queue."""
    log = queue.pager
    return log if isinstance(log, StreamLog) else None


def listed_messages(queue: Queue) -> int:
    """Return the messages in lists: the depth, or all retained messages of a stream (as in RabbitMQ)."""
    log = log_in(queue)
    return int(queue.depth_messages() if log is None else log.messages + queue.messages)


def listed_bytes(queue: Queue) -> int:
    """Return the bytes of these messages, as the limits of the queue count them."""
    log = log_in(queue)
    return int(queue.measure().bytes if log is None else log.bytes + queue.bytes)


def listed_unacknowledged(queue: Queue) -> int:
    """Return the unacknowledged deliveries of a queue; those of a stream are not a part of its messages."""
    return int(queue.lent_messages if isinstance(queue, StreamQueue) else queue.unacked_messages)


def listed_ready(queue: Queue) -> int:
    """Return the messages that are ready: all of a stream."""
    log = log_in(queue)
    return int(queue.ready_messages() if log is None else log.messages)
