"""Messages for the lines of a queue, and what comes out of these."""

from __future__ import annotations

from penstock.core.message import Envelope, TrackedMessage
from penstock.core.queue.ready_queue import ReadyQueue
from penstock.flow.timers import NEVER


def message(sequence: int, priority: int = 0, ttl_s: float = NEVER, arrived: float = 0.0) -> TrackedMessage:
    return TrackedMessage(Envelope("", "q", priority, ttl_s), b"%d" % sequence, 300, sequence, arrived, None)


def pulled(queue: ReadyQueue) -> list[int]:
    """Take all messages in the order of delivery."""
    return [int(queue.pull().sequence) for _ in range(int(queue.available()))]
