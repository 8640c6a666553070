"""Quorum queues with urgent messages: their ready messages are in two lines, or in one (decision 147).

Theory of operation. A quorum queue begins with one line. The first urgent message divides the queue: `divided` puts the
line, unchanged, beside a new line for urgent messages. A queue that cursors read, or that pages, is not divided:
`in_order` puts the messages back into one line, by sequence. No route caches the line of urgent messages (see
`Route.set_target`), so the line may be removed at any time.
"""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.message import Message
from penstock.core.queue.indexed_ready_queue import IndexedReadyQueue, indexed
from penstock.core.queue.ready_queue import Priorities, ReadyQueue
from penstock.core.queue.shared_ready_queue import SharedReadyQueue
from penstock.core.queue.urgency import UrgencyTurns


def divided(ready: ReadyQueue) -> ReadyQueue:
    """Return ready messages in two classes; messages with cursors, or with priorities already, are returned
    unchanged.
    """
    if isinstance(ready, (Priorities, SharedReadyQueue)):
        return ready
    classes = Priorities(1, UrgencyTurns())
    classes.adopt(ready)
    return indexed(classes) if isinstance(ready, IndexedReadyQueue) else classes


def in_order(ready: ReadyQueue) -> ReadyQueue:
    """Return ready messages without classes, in the order of their sequences.

    The index of the line grows up to the newest urgent message. Each urgent message then moves to its position.
    """
    if not isinstance(ready, Priorities) or ready.turns is None:
        return ready
    others = ready.lines[len(ready.lines) - 1]
    urgent = ready.lines[0]
    if urgent is others or urgent.available() == 0:
        return others
    line = indexed(others)
    assert isinstance(line, IndexedReadyQueue)
    newest = _newest(urgent)
    while not line.reach(newest):
        pass
    while urgent.available() > 0:
        line.put_back(urgent.pull())
    return line


def oldest_of(ready: ReadyQueue) -> Message | None:
    """Return the oldest ready message; in a queue with cursors, messages that only cursors get are included."""
    if isinstance(ready, SharedReadyQueue):
        return ready.line.next()
    if not isinstance(ready, Priorities):
        return ready.next()
    oldest: Message | None = None
    for line in ready.lines:
        message = line.next()
        if message is not None and (oldest is None or message.sequence < oldest.sequence):
            oldest = message
    return oldest


def _newest(line: ReadyQueue) -> i64:
    """Return the highest sequence of a line; 0 if it is empty."""
    newest: i64 = line.ready[-1].sequence if line.ready else 0
    for sequence, _ in line.returned:
        if sequence > newest:
            newest = sequence
    if isinstance(line, IndexedReadyQueue) and line.last() > newest:
        return line.last()
    return newest
