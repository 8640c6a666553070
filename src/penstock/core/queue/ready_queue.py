"""The ready messages of a queue, in order, in one line or in one line for each priority.

With x-max-priority the highest priority comes first. The two classes of a quorum queue take turns (see `UrgencyTurns`).

Theory of operation. `ready` holds messages that were never delivered, in order. Requeued messages (rejected, or their
channel closed) go to `returned`, a heap by sequence. All of these are older than the messages in `ready`, because
deliveries leave from the front.

A message with its own time to live (its `expiration`) is also in `expiring`, a heap by expiry time, so that it can
leave when it is due, from any position. A message that expires in the middle leaves a *tombstone*: an empty message
that is skipped, and swept when tombstones are a quarter of all. The entry of a delivered message is idle, empty, and
swept when idle entries are half of all. So no operation has to search. A sweep goes through the line in steps, between
which the line may change (see `Sweep`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.message import Expiry, Message, StoredMessage, TrackedMessage
from penstock.core.queue.deferred_free import DeferredFree
from penstock.core.queue.urgency import URGENT_FROM, UrgencyTurns
from penstock.flow.timers import NEVER

NOTHING: Final[deque[Message]] = deque(maxlen=0)
"""Shared empty deque of all queues that never had a message: a deque takes 600 bytes even when empty."""
SWEPT_FROM: Final = 256
"""Fewest tombstones or idle entries for a sweep."""
SWEPT_A_STEP: Final = 8192
"""Entries examined in one step of a sweep."""
SWEPT_A_UNIT: Final = 8
TURNED_A_UNIT: Final = 1000
HEAP_A_UNIT: Final = 4
"""Units of work of a sweep: entries of the deque, examined or passed by a rotation, and entries of a heap."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReadyQueue:
    """First in, first out. The queue counts the depth."""

    def __init__(self) -> None:
        self.ready: deque[Message] = NOTHING
        self.returned: list[tuple[int, Message]] = []
        self.expiring: list[tuple[float, int, Expiry]] = []
        self.tombstones: i64 = 0
        self.idle: i64 = 0
        self.sweep_under_way: Sweep | None = None

    def ready_for(self, priority: i64) -> deque[Message]:
        """Return the deque to which messages with this priority are appended."""
        if self.ready is NOTHING:
            self.ready = deque()
        return self.ready

    def contiguous(self) -> deque[Message]:
        """Return a deque whose messages are next in order; empty if `pull` must be used."""
        return NOTHING if self.returned or self.expiring or self.tombstones != 0 else self.ready

    def available(self) -> i64:
        """Return the number of messages that could be delivered now."""
        return len(self.ready) + len(self.returned) - self.tombstones

    def held_back(self) -> i64:
        """Return the number of ready messages that no consumer may get, because cursors have acquired them."""
        return 0

    def has_expiring(self) -> bool:
        """Return whether any message may have an own time to live."""
        return len(self.expiring) > 0

    def append(self, message: Message) -> None:
        """Append a message."""
        self.ready_for(0).append(message)
        if isinstance(message, TrackedMessage) and message.expires != NEVER:
            self._list(message)

    def extend(self, messages: list[StoredMessage]) -> None:
        """Append messages, in their order."""
        self.ready_for(0).extend(messages)
        for message in messages:
            if isinstance(message, TrackedMessage) and message.expires != NEVER:
                self._list(message)

    def pull(self) -> Message:
        """Take the next message for delivery; there must be one."""
        while True:
            message = heapq.heappop(self.returned)[1] if self.returned else self.ready.popleft()
            if not isinstance(message, TrackedMessage):
                return message
            if message.is_tombstone:
                self.tombstones -= 1
                continue
            if message.expiry is not None:
                message.expiry.message = None
                message.expiry = None
                self.idle += 1
            return message

    def next(self) -> Message | None:
        """Return the next message for delivery, None without messages."""
        while True:
            if self.returned:
                message = self.returned[0][1]
            elif self.ready:
                message = self.ready[0]
            else:
                return None
            if not _is_tombstone(message):
                return message
            self._drop_next()

    def oldest_arrival(self) -> float:
        """Return the arrival of the oldest ready message, in seconds of the broker's clock; infinity without one.

        A line is in the order of arrivals, so the oldest message is the next one.
        """
        message = self.next()
        return NEVER if message is None else message.arrived

    def put_back(self, message: Message) -> None:
        """Put a delivered message back at its position."""
        heapq.heappush(self.returned, (int(message.sequence), message))
        if isinstance(message, TrackedMessage) and message.expires != NEVER:
            self._list(message)

    def messages(self) -> list[Message]:
        """Return all ready messages, in no particular order."""
        messages: list[Message] = []
        for message in [*self.ready, *[entry[1] for entry in self.returned]]:
            if not _is_tombstone(message):
                messages.append(message)
        return messages

    def clear(self) -> None:
        """Drop all ready messages."""
        self.ready.clear()
        self.returned.clear()
        for _, _, expiry in self.expiring:
            expiry.message = None  # Breaks the reference cycle with the message.
        self.expiring.clear()
        self.tombstones = 0
        self.idle = 0

    def hand_over(self, leftovers: DeferredFree, reroute: bool) -> None:
        """Move all ready messages to `leftovers`.

        `reroute`: the routes will ask for the deque again (see `ready_for`). Otherwise the deque must stay, and is
        copied.
        """
        leftovers.lines.append(self.ready if reroute else self.ready.copy())
        if reroute:
            self.ready = NOTHING
        else:
            self.ready.clear()
        leftovers.heaps.append(self.returned)
        leftovers.expiries.append(self.expiring)
        self.returned = []
        self.expiring = []
        self.tombstones = 0
        self.idle = 0

    # Expiring; times in seconds of the broker's monotonic clock

    def due(self, ttl_s: float) -> float:
        """Return the next expiry time, with a queue's message TTL (infinity without one); infinity for never."""
        message = self.next()
        when = NEVER if message is None else message.arrived + ttl_s
        expiring = self._first_expiring()
        return expiring.expires if expiring is not None and expiring.expires < when else when

    def take_due(self, now: float, ttl_s: float, offered: float) -> Message | None:
        """Take a message that has expired by `now`; None if there is none.

        A message that arrived after `offered` has not expired: even with a time to live of 0 it may be delivered to a
        waiting consumer.
        """
        message = self.next()
        if message is None:
            return None
        if message.arrived + ttl_s <= now and message.arrived <= offered:
            return self.pull()
        expiring = self._first_expiring()
        if expiring is None or expiring.expires > now or expiring.arrived > offered:
            return None
        if expiring is message:
            return self.pull()
        heapq.heappop(self.expiring)
        self.tombstones += 1
        return expiring.leave_tombstone()

    def _first_expiring(self) -> TrackedMessage | None:
        """Return the message with the earliest expiry of its own; drops entries of messages that have left."""
        expiring = self.expiring
        while expiring:
            message = expiring[0][2].message
            if message is not None:
                return message
            heapq.heappop(expiring)
            self.idle -= 1
        return None

    def _list(self, message: TrackedMessage) -> None:
        message.expiry = Expiry(message)
        heapq.heappush(self.expiring, (message.expires, int(message.sequence), message.expiry))

    def _drop_next(self) -> None:
        if self.returned:
            heapq.heappop(self.returned)
        else:
            self.ready.popleft()
        self.tombstones -= 1

    # Sweeping

    def begin_sweep(self) -> bool:
        """Begin a sweep if one is due; returns False if no sweep is due, or one is under way."""
        if self.sweep_under_way is not None:
            return False
        many = self.tombstones > SWEPT_FROM and self.tombstones * 4 > len(self.ready) + len(self.returned)
        if many or (self.idle > SWEPT_FROM and self.idle * 2 > len(self.expiring)):
            self.sweep_under_way = Sweep(self)
            return True
        return False

    def is_swept(self) -> bool:
        """Return whether no sweep is under way."""
        return self.sweep_under_way is None

    def sweep(self, most: i64) -> i64:
        """Continue the sweep, for about `most` units of work; returns the units."""
        spent: i64 = 0
        while spent < most and self.sweep_under_way is not None:
            spent += self.sweep_under_way.step()
            if self.sweep_under_way.is_over():
                self.sweep_under_way = None
        return spent


class Sweep:
    """A removal of the tombstones and idle entries of one line, in steps.

    The deque is swept from its front: a step rotates it to the first entry that was not examined, and back. The heaps
    are swept from their ends, and stay heaps after each step. Arrivals and removals between two steps may displace
    entries so that some are not examined: the next sweep finds them.
    """

    def __init__(self, line: ReadyQueue, entries: i64 = SWEPT_A_STEP) -> None:
        self._line = line
        self._entries: i64 = entries
        """Entries to examine in one step."""
        self._ready: i64 = 0
        """Number of examined entries at the front; -1 after the last entry."""
        self._returned: i64 = len(line.returned)
        self._expiring: i64 = len(line.expiring)
        """Entries of the heaps that were not examined yet."""

    def is_over(self) -> bool:
        """Return whether all entries were examined."""
        return self._ready < 0 and self._returned == 0 and self._expiring == 0

    def step(self) -> i64:
        """Examine some entries; returns the units of work."""
        if self._ready >= 0:
            return self._sweep_ready()
        if self._returned > 0:
            return self._sweep_returned()
        return self._sweep_expiring()

    def _sweep_ready(self) -> i64:
        line = self._line
        ready = line.ready
        count: i64 = len(ready)
        begin: i64 = self._ready if self._ready < count else count
        looked_at = self._entries if count - begin > self._entries else count - begin
        if looked_at == 0 or line.tombstones == 0:
            self._ready = -1
            return 1
        ready.rotate(-int(begin))
        kept: i64 = 0
        for _ in range(looked_at):
            message = ready.popleft()
            if _is_tombstone(message):
                line.tombstones -= 1
            else:
                ready.append(message)
                kept += 1
        ready.rotate(int(begin + kept))
        self._ready = begin + kept
        turned = begin if begin < count - begin else count - begin
        return looked_at // SWEPT_A_UNIT + 2 * turned // TURNED_A_UNIT + 1

    def _sweep_returned(self) -> i64:
        line = self._line
        heap = line.returned
        at: i64 = self._returned if self._returned < len(heap) else len(heap)
        end = at - self._entries if at > self._entries else 0
        while at > end:
            at -= 1
            if at < len(heap) and _is_tombstone(heap[at][1]):
                remove_from_heap(heap, at)
                line.tombstones -= 1
        self._returned = end
        return self._entries // HEAP_A_UNIT + 1

    def _sweep_expiring(self) -> i64:
        line = self._line
        heap = line.expiring
        at: i64 = self._expiring if self._expiring < len(heap) else len(heap)
        end = at - self._entries if at > self._entries else 0
        while at > end:
            at -= 1
            if at < len(heap) and heap[at][2].message is None:
                remove_from_heap(heap, at)
                line.idle -= 1
        self._expiring = end
        return self._entries // HEAP_A_UNIT + 1


Entry = TypeVar("Entry", tuple[int, Message], tuple[float, int, Expiry])


def remove_from_heap(heap: list[Entry], at: i64) -> None:
    """Remove the entry at an index of a heap of heapq."""
    moved = heap.pop()
    size: i64 = len(heap)
    if at == size:
        return
    child = 2 * at + 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if not heap[child] < moved:
            break
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    while at > 0:
        parent = (at - 1) >> 1
        if not moved < heap[parent]:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = moved


def _is_tombstone(message: Message) -> bool:
    return isinstance(message, TrackedMessage) and message.is_tombstone


class Priorities(ReadyQueue):
    """Ready messages by priority.

    Priorities above the queue's highest count as the highest; messages without a priority have 0 (as in RabbitMQ). With
    `turns` there are two classes that take turns: 1 for urgent messages, and 0 for the others.
    """

    def __init__(self, highest: i64, turns: UrgencyTurns | None = None) -> None:
        super().__init__()
        self.highest: i64 = highest
        self.turns = turns
        """The turns of a quorum queue's two classes; None if the highest priority always comes first."""
        self.lines: list[ReadyQueue] = []
        """Lines of the priorities in use, from the highest to the lowest."""
        self._priorities: list[int] = []
        self._line_of: Callable[[ReadyQueue], ReadyQueue] | None = None

    @override
    def ready_for(self, priority: i64) -> deque[Message]:
        return self._line(priority).ready_for(0)

    def adopt(self, line: ReadyQueue) -> None:
        """Begin with a line for messages of priority 0."""
        self._priorities.append(0)
        self.lines.append(line)

    @override
    def contiguous(self) -> deque[Message]:
        if self.turns is not None and len(self.lines) == 2 and self.lines[0].available() > 0:
            return NOTHING if self.lines[1].available() > 0 else self.lines[0].contiguous()
        for line in self.lines:
            if line.available():
                if self.turns is not None:
                    self.turns.count(0)  # The caller takes from the run at once, before any urgent message arrives.
                return line.contiguous()
        return NOTHING

    @override
    def available(self) -> i64:
        total: i64 = 0
        for line in self.lines:
            total += line.available()
        return total

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
        if self.turns is not None and len(self.lines) == 2:
            urgent = self.turns.is_urgent(self.lines[0].next(), self.lines[1].next())
            self.turns.count(1 if urgent else 0)
            return self.lines[0 if urgent else 1].pull()
        for line in self.lines:
            if line.available():
                return line.pull()
        raise AssertionError("nothing is available")

    @override
    def next(self) -> Message | None:
        if self.turns is not None and len(self.lines) == 2:
            urgent, other = self.lines[0].next(), self.lines[1].next()
            return urgent if self.turns.is_urgent(urgent, other) else other
        for line in self.lines:
            message = line.next()
            if message is not None:
                return message
        return None

    @override
    def oldest_arrival(self) -> float:
        oldest = NEVER
        for line in self.lines:
            arrived = line.oldest_arrival()
            if arrived < oldest:
                oldest = arrived
        return oldest

    @override
    def put_back(self, message: Message) -> None:
        self._line(message.envelope.priority).put_back(message)

    @override
    def messages(self) -> list[Message]:
        messages: list[Message] = []
        for line in self.lines:
            messages.extend(line.messages())
        return messages

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

    @override
    def begin_sweep(self) -> bool:
        if not self.is_swept():
            return False
        begun = False
        for line in self.lines:
            if line.begin_sweep():
                begun = True
        return begun

    @override
    def is_swept(self) -> bool:
        for line in self.lines:
            if line.sweep_under_way is not None:
                return False
        return True

    @override
    def sweep(self, most: i64) -> i64:
        spent: i64 = 0
        for line in self.lines:
            if spent < most:
                spent += line.sweep(most - spent)
        return spent

    def _line(self, priority: i64) -> ReadyQueue:
        if self.turns is not None:
            priority = 1 if priority >= URGENT_FROM else 0
        elif priority > self.highest:
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
        """Apply a function to each line, and to each later line; the result replaces the line."""
        self._line_of = line_of
        for at in range(len(self.lines)):
            self.lines[at] = line_of(self.lines[at])
