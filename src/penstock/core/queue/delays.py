"""The delayed messages of a queue, by the time at which they are due.

Theory of operation. A delayed message is in its queue from its publish on: it counts in the depth, in every sum and in
the store. It is not ready, so consumers, browsers, cursors, the length limit and drop-head do not see it. When it is
due it leaves its place and enters the queue like a new message, at the end, in the order of due times: so sequences and
pages stay in the order of arrival, and cursors read each message once. The store gets the message again in the same
journal group that removes the delayed one.

A delivery that failed may wait for another try (`retry-delay`). Such a message keeps its sequence and returns to its
position.

Due times are on the monotonic clock while the broker runs. The store has wall-clock times (persistence/rows.py).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.content.delay import DELAY_HEADER
from penstock.core.gates.address_depth import AddressShare
from penstock.core.message import DelayedEnvelope, Message, StoredMessage, TrackedMessage
from penstock.core.queue.context import DelayedMessages, QueueContext
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.work import Steps

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue
    from penstock.core.queue.storage import QueueStorage

DUE_A_STEP: Final = 250
"""Most messages of one queue that become ready in one step; the others follow in the next turn."""
DUE_WORK: Final = 4
"""Units of work of a message that becomes ready."""
FIRST_NUMBER: Final = -(1 << 62)
"""Number of the first delayed message of a queue. All numbers are negative, and below each sequence."""
DOUBLED_MOST: Final = 40
"""Most doublings of a retry delay; the longest delay bounds it far earlier."""
SEARCHED_AT_ONCE: Final = 4096
SEARCHED_A_UNIT: Final = 16
"""Delayed messages that a search by number looks at without a pause, and with one unit of work."""
LISTED_MOST: Final = 1000
"""Most delayed messages in one list."""
TAKEN_TOGETHER: Final = 500
"""Purged delayed messages that are released together."""


class Delays(TimerHandler, DelayedMessages):
    """The delayed messages of one queue; only queues that had one, or retry later, have this object.

    The envelope of each is a `DelayedEnvelope`. A message that was never delivered has a negative number in place of a
    sequence: it gets its sequence, and its position in the queue, when it is due.
    """

    def __init__(self, broker: QueueContext, queue: Queue) -> None:
        super().__init__()
        self.queue = queue
        self.messages: list[StoredMessage] = []
        """A heap by due time."""
        self._broker = broker
        self._next: i64 = FIRST_NUMBER
        """Number of the next delayed message."""

    def next_due(self) -> float:
        """Return when the first message is due (monotonic seconds); infinity without messages."""
        return self.messages[0].envelope.due_time() if self.messages else NEVER

    # Entering

    def add(
        self, address: DelayedEnvelope, content: bytes, charge: i64, now: float, share: AddressShare | None
    ) -> None:
        """Add an admitted message; the caller watches the queue and updates its gate."""
        queue = self.queue
        message = StoredMessage(address, content, charge, self._next, now)
        self._next += 1
        if share is not None:
            message.share = share
            queue.tracks_removals = True
        if address.persistent and queue.storage is not None:
            queue.storage.add(message)
        self._count(message)
        queue.messages += 1
        queue.bytes += charge

    @override
    def restore(self, message: StoredMessage) -> None:
        if message.sequence < 0 and message.sequence >= self._next:
            self._next = message.sequence + 1
        self._count(message)
        self.queue.messages += 1
        self.queue.bytes += message.charge

    @override
    def retry(self, message: Message, now: float) -> None:
        queue = self.queue
        settings = queue.settings
        delay_s = retry_delay_s(settings.retry_delay_s, settings.retry_delay_max_s, message.failures)
        envelope = DelayedEnvelope(message.envelope, now + delay_s)
        waiting = StoredMessage(envelope, message.content, message.charge, message.sequence, message.arrived)
        waiting.past = message.past
        waiting.share = message.share
        storage = _storage_of(queue)
        if isinstance(message, StoredMessage) and message.group is not None and storage is not None:
            if message.envelope.persistent:
                journal = storage.journal
                moves = journal.is_stored(message)
                journal.drop(storage, message)
                if moves:
                    journal.begin_move()
                journal.add(storage, waiting)
                if moves:
                    journal.end_move()
            else:
                _hand_over(message, waiting)
        self._count(waiting)

    def _count(self, message: StoredMessage) -> None:
        heapq.heappush(self.messages, message)
        self._broker.timers.add(self, self.next_due())
        self.queue.delayed_messages += 1
        self.queue.delayed_bytes += message.charge

    def _uncount(self, message: StoredMessage) -> None:
        self.queue.delayed_messages -= 1
        self.queue.delayed_bytes -= message.charge

    # Becoming ready

    @override
    def on_deadline(self, now: float) -> float:
        done: i64 = 0
        while self.next_due() <= now and done < DUE_A_STEP:
            self._make_ready(heapq.heappop(self.messages), now)
            done += 1
        if done > 0:
            self._announce(done, now)
        return self.next_due()

    def make_ready(self, message: StoredMessage, now: float) -> bool:
        """Make a message ready before it is due; False if it is not delayed any more."""
        if not self._take(message):
            return False
        self._make_ready(message, now)
        self._announce(1, now)
        return True

    def make_first_ready(self, most: i64, now: float) -> i64:
        """Make the first messages ready before they are due; returns their number."""
        done: i64 = 0
        while self.messages and done < most:
            self._make_ready(heapq.heappop(self.messages), now)
            done += 1
        if done > 0:
            self._announce(done, now)
        return done

    def _announce(self, count: i64, now: float) -> None:
        """Update the gate and offer the messages that have become ready."""
        queue = self.queue
        queue.update_gate(now)
        broker = self._broker
        broker.work.count(DUE_WORK * count)
        broker.watch_lifetime(queue)
        broker.schedule_delivery(queue)

    def _make_ready(self, message: StoredMessage, now: float) -> None:
        self._uncount(message)
        queue = self.queue
        queue.membership.count_returned(message, now)
        if message.sequence > 0:
            self._return(message, now)
            return
        share = message.share
        message.share = None
        envelope = message.envelope
        assert isinstance(envelope, DelayedEnvelope)
        storage = queue.storage
        moves = storage is not None and storage.journal.is_stored(message)
        if message.group is not None:
            queue.release([message], now)
        queue.messages -= 1
        queue.bytes -= message.charge
        if storage is not None and moves:
            storage.journal.begin_move()
        queue.enqueue(envelope.plain, self._content_of(message), message.charge, now, share)
        if storage is not None and moves:
            storage.journal.end_move()

    def _return(self, message: StoredMessage, now: float) -> None:
        """Return a message to its position for another try."""
        queue = self.queue
        envelope = message.envelope
        assert isinstance(envelope, DelayedEnvelope)
        plain = envelope.plain
        share = message.share
        if share is None and plain.ttl_s == NEVER:
            back = StoredMessage(plain, message.content, message.charge, message.sequence, message.arrived)
        else:
            back = TrackedMessage(plain, message.content, message.charge, message.sequence, message.arrived, share)
        back.past = message.past
        _hand_over(message, back)
        queue.ready_queue.put_back(back)
        queue.counters.returned += 1
        if queue.length is not None:
            queue.length.on_requeued(back, now)

    def _content_of(self, message: StoredMessage) -> bytes:
        """Return the content of a message that is due: the header that delayed it is negated."""
        envelope, content = message.envelope, message.content
        header = envelope.header if isinstance(envelope, DelayedEnvelope) else None
        if header is None:
            return content
        if header.negated is None or header.content is not content:
            negated: dict[str, object] = {DELAY_HEADER: -int(header.delay_ms)}
            header.negated = self._broker.formats.find(content).with_headers(content, negated)
            header.content = content
        return content if header.negated is None else header.negated

    # Removing

    def cancel(self, message: StoredMessage, now: float) -> bool:
        """Remove a message; False if it is not delayed any more."""
        if not self._take(message):
            return False
        self._drop(message, now)
        self.queue.update_gate(now)
        return True

    def cancel_first(self, most: i64, now: float) -> i64:
        """Remove the first messages; returns their number."""
        done: i64 = 0
        while self.messages and done < most:
            self._drop(heapq.heappop(self.messages), now)
            done += 1
        if done > 0:
            self.queue.update_gate(now)
        return done

    @override
    def take_all(self) -> list[list[Message | None]]:
        messages = self.messages
        self.messages = []
        self.queue.delayed_messages = 0
        self.queue.delayed_bytes = 0
        self._broker.timers.drop(self)
        return [list(messages[at : at + TAKEN_TOGETHER]) for at in range(0, len(messages), TAKEN_TOGETHER)]

    def _drop(self, message: StoredMessage, now: float) -> None:
        self._uncount(message)
        queue = self.queue
        if queue.tracks_removals:
            queue.release([message], now)
        queue.counters.own().withdrawn += 1
        queue.withdraw(1, message.charge, now)
        self._broker.work.count(DUE_WORK)

    def _take(self, message: StoredMessage) -> bool:
        """Remove a message from the heap; False if it is not there."""
        try:
            at = self.messages.index(message)
        except ValueError:
            return False
        _remove_from_heap(self.messages, at)
        return True

    # Queries

    def find(self, number: i64) -> Steps[StoredMessage | None]:
        """Find a message by its number, in slices; None if no message has it."""
        work = self._broker.work
        messages = list(self.messages)
        for start in range(0, len(messages), SEARCHED_AT_ONCE):
            for message in messages[start : start + SEARCHED_AT_ONCE]:
                if message.sequence == number:
                    return message
            if work.spend(SEARCHED_AT_ONCE // SEARCHED_A_UNIT):
                yield
        return None

    def first(self, most: i64) -> list[StoredMessage]:
        """Return the first messages by due time, at most `LISTED_MOST`."""
        heap = self.messages
        most = most if most < LISTED_MOST else LISTED_MOST
        found: list[StoredMessage] = []
        frontier: list[tuple[float, int, int]] = []
        if heap:
            frontier.append((self.next_due(), int(heap[0].sequence), 0))
        while frontier and len(found) < most:
            at = heapq.heappop(frontier)[2]
            found.append(heap[at])
            for child in range(2 * at + 1, min(2 * at + 3, len(heap))):
                heapq.heappush(frontier, (heap[child].envelope.due_time(), int(heap[child].sequence), child))
        return found


def retry_delay_s(first_s: float, most_s: float, failures: i64) -> float:
    """Return the seconds until the next try after so many failed ones: doubled with each, at most `most_s`, and never
    below `first_s`.
    """
    doublings = failures - 1 if failures < DOUBLED_MOST else DOUBLED_MOST
    delay_s = first_s * float(i64(1) << doublings) if doublings > 0 else first_s
    longest_s = most_s if most_s > first_s else first_s
    return delay_s if delay_s < longest_s else longest_s


def number_text(message: StoredMessage) -> str:
    """Return the number of a delayed message as users see it: `d1`, `d2` ...; `r` and its sequence for a retried
    one.
    """
    sequence = int(message.sequence)
    return f"r{sequence}" if sequence > 0 else f"d{sequence - FIRST_NUMBER + 1}"


def number_of(text: str) -> int | None:
    """Return the number that a user gave; None if it is none."""
    digits = text[1:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18 or text[0] not in "dr":
        return None
    return int(digits) if text[0] == "r" else int(digits) + FIRST_NUMBER - 1


def delays_of(queue: Queue) -> Delays | None:
    """Return the delayed messages of a queue; None if it never had one."""
    delays = queue.delays
    return delays if isinstance(delays, Delays) else None


def prepare(broker: QueueContext, queues: list[Queue]) -> None:
    """Prepare the queues of a delayed message."""
    for queue in queues:
        if queue.delays is None:
            queue.delays = Delays(broker, queue)


def attach_retries(broker: QueueContext, queue: Queue) -> None:
    """Prepare a queue whose settings let failed deliveries wait."""
    if queue.settings.retry_delay_s > 0:
        prepare(broker, [queue])


def _storage_of(queue: Queue) -> QueueStorage | None:
    return queue.storage if queue.storage is not None or queue.pager is None else queue.pager.storage


def _hand_over(message: StoredMessage, other: StoredMessage) -> None:
    """Replace a message in its row."""
    group = message.group
    if group is not None:
        other.group = group
        other.index = message.index
        group.messages[message.index] = other
        message.group = None


def _remove_from_heap(heap: list[StoredMessage], at: int) -> None:
    """Remove the entry at an index of a heap of heapq."""
    last = heap.pop()
    if at == len(heap):
        return
    while at > 0 and last < heap[(at - 1) >> 1]:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    child = 2 * at + 1
    while child < len(heap):
        if child + 1 < len(heap) and heap[child + 1] < heap[child]:
            child += 1
        if not heap[child] < last:
            break
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = last
