"""The ready messages of a queue with priorities (x-max-priority): one line per priority, the highest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mypy_extensions import i64
from typing_extensions import override

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
        self._line_of: Callable[[ReadyQueue], ReadyQueue] | None = None

    @override
    def ready_for(self, priority: i64) -> deque[Message]:
        return self._line(priority).ready_for(0)

    @override
    def contiguous(self) -> deque[Message]:
        for line in self.lines:
            if line.available():
                return line.contiguous()
        return NOTHING

    @override
    def available(self) -> i64:
        found: i64 = 0
        for line in self.lines:
            found += line.available()
        return found

    @override
    def has_expiring(self) -> bool:
        for line in self.lines:
            if line.has_expiring():
                return True
        return False

    @override
    def append(self, message: Message) -> None:
        self._line(message.envelope.priority).append(message)

    @override
    def extend(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            self.append(message)

    @override
    def pull(self) -> Message:
        for line in self.lines:
            if line.available():
                return line.pull()
        raise AssertionError("nothing is available")

    @override
    def next(self) -> Message | None:
        for line in self.lines:
            message = line.next()
            if message is not None:
                return message
        return None

    @override
    def put_back(self, message: Message) -> None:
        self._line(message.envelope.priority).put_back(message)

    @override
    def messages(self) -> list[Message]:
        found: list[Message] = []
        for line in self.lines:
            found.extend(line.messages())
        return found

    @override
    def clear(self) -> None:
        for line in self.lines:
            line.clear()

    @override
    def hand_over(self, leftovers: DeferredFree, reroute: bool) -> None:
        for line in self.lines:
            line.hand_over(leftovers, reroute)

    @override
    def due(self, ttl_s: float) -> float:
        when = NEVER
        for line in self.lines:
            due = line.due(ttl_s)
            if due < when:
                when = due
        return when

    @override
    def take_due(self, now: float, ttl_s: float, offered: float) -> Message | None:
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
            line = ReadyQueue()
            self.lines.insert(at, line if self._line_of is None else self._line_of(line))
        return self.lines[at]

    def replace_lines(self, line_of: Callable[[ReadyQueue], ReadyQueue]) -> None:
        """Replace each line, and each later one, by what a function makes of it."""
        self._line_of = line_of
        for at in range(len(self.lines)):
            self.lines[at] = line_of(self.lines[at])
