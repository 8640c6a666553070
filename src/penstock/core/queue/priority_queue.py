"""The ready messages of a queue with priorities (x-max-priority): one line per priority, the highest first."""

from __future__ import annotations

from collections import deque

from mypy_extensions import i64

from penstock.core.message import Message, StoredMessage
from penstock.core.queue.deferred_free import DeferredFree
from penstock.core.queue.ready_queue import NOTHING, ReadyQueue
from penstock.flow.timers import NEVER


class Priorities(ReadyQueue):
    """Ready messages by priority.

    Priorities above the queue's highest count as the highest; messages without one have priority 0 (as in RabbitMQ).
    """

    def __init__(self, highest: i64) -> None:
        super().__init__()
        self.highest: i64 = highest
        self.lines: list[ReadyQueue] = []
        """Lines of the priorities in use, from the highest to the lowest."""
        self._priorities: list[int] = []

    def ready_for(self, priority: i64) -> deque[Message]:
        """See `ReadyQueue.ready_for`."""
        return self._line(priority).ready_for(0)

    def contiguous(self) -> deque[Message]:
        """See `ReadyQueue.contiguous`."""
        for line in self.lines:
            if line.available():
                return line.contiguous()
        return NOTHING

    def available(self) -> i64:
        """See `ReadyQueue.available`."""
        found: i64 = 0
        for line in self.lines:
            found += line.available()
        return found

    def has_expiring(self) -> bool:
        """See `ReadyQueue.has_expiring`."""
        for line in self.lines:
            if line.has_expiring():
                return True
        return False

    def append(self, message: Message) -> None:
        """See `ReadyQueue.append`."""
        self._line(message.envelope.priority).append(message)

    def extend(self, messages: list[StoredMessage]) -> None:
        """See `ReadyQueue.extend`."""
        for message in messages:
            self.append(message)

    def pull(self) -> Message:
        """See `ReadyQueue.pull`."""
        for line in self.lines:
            if line.available():
                return line.pull()
        raise AssertionError("nothing is available")

    def next(self) -> Message | None:
        """See `ReadyQueue.next`."""
        for line in self.lines:
            message = line.next()
            if message is not None:
                return message
        return None

    def put_back(self, message: Message) -> None:
        """See `ReadyQueue.put_back`."""
        self._line(message.envelope.priority).put_back(message)

    def messages(self) -> list[Message]:
        """See `ReadyQueue.messages`."""
        found: list[Message] = []
        for line in self.lines:
            found.extend(line.messages())
        return found

    def clear(self) -> None:
        """See `ReadyQueue.clear`."""
        for line in self.lines:
            line.clear()

    def hand_over(self, leftovers: DeferredFree, reroute: bool) -> None:
        """See `ReadyQueue.hand_over`."""
        for line in self.lines:
            line.hand_over(leftovers, reroute)

    def due(self, ttl_s: float) -> float:
        """See `ReadyQueue.due`."""
        when = NEVER
        for line in self.lines:
            due = line.due(ttl_s)
            if due < when:
                when = due
        return when

    def take_due(self, now: float, ttl_s: float, offered: float) -> Message | None:
        """See `ReadyQueue.take_due`."""
        for line in self.lines:
            message = line.take_due(now, ttl_s, offered)
            if message is not None:
                return message
        return None

    def _line(self, priority: i64) -> ReadyQueue:
        if priority > self.highest:
            priority = self.highest
        at: i64 = 0
        for known in self._priorities:
            if known <= priority:
                break
            at += 1
        if at == len(self._priorities) or self._priorities[at] != priority:
            self._priorities.insert(at, int(priority))
            self.lines.insert(at, ReadyQueue())
        return self.lines[at]
