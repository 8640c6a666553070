"""State of cursors: positions up to which queues are settled, the messages beyond them, and the room that queries pin.

A cursor is a named read position on queues, for a reader that must be able to read again; `ranges/cursors.py`
implements its operations. This module has the state that queues, the store and lists use. A message leaves the queue
only when every cursor of the queue has settled it. So messages that were read and not settled count in the depth, and a
slow reader blocks the producers.

The ready messages of a queue with cursors have an index with sums (see IndexedReadyQueue), so a lag takes two binary
searches, however many messages lie before or behind the position. A cursor cannot read unacknowledged messages of
consumers, and does not count them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.gates.address_depth import AddressDepth
from penstock.core.queue.indexed_ready_queue import REACH_WORK, IndexedReadyQueue, indexed
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import visible_tail
from penstock.core.queue.shared_ready_queue import SharedReadyQueue
from penstock.core.queue.urgency_classes import in_order
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED
from penstock.flow.pool import PoolHolder
from penstock.flow.shared_limit import CountedDepth
from penstock.flow.timers import NEVER
from penstock.flow.work import AT_ONCE, Chore, WorkMeter

SETTLED_A_UNIT: Final = 4
"""Messages dropped with one unit of work."""
REACHED_AT_ONCE: Final = 50
"""Chunks of new messages that one look puts into the index; a position beyond them is looked at again later."""


class Position:
    """The position of a cursor on one queue. All attributes are sequences, and inclusive ends."""

    __slots__ = (
        "queue",
        "shared",
        "line",
        "initial",
        "settled",
        "planned",
        "persisted",
        "left",
        "generation",
        "looked",
        "reported",
    )

    def __init__(self, queue: Queue, initial: i64) -> None:
        self.queue = queue
        self.shared = shared_of(queue)
        self.line = self.shared.line
        self.initial: i64 = initial
        self.settled: i64 = initial
        self.planned: i64 = initial
        self.persisted: i64 = 0
        """Settled position that the journal recorded last."""
        self.left: bool = False
        """True if the subscription does not include the queue any more; the position and its messages stay."""
        self.generation: int = 0
        """The cursor's count of lost queues when this position was made: it distinguishes queues that had the same
        name."""
        self.looked: i64 = 0
        """The newest message that a waiting plan of the cursor has counted."""
        self.reported: i64 = -1
        """The tail of the queue in the last plan whose answer has only changes."""

    def reach(self, start: i64, rows: i64, upto: i64) -> bool:
        """Move a chunk of messages into the index, for a range of so many rows after `start`.

        Returns True once that range is found without such work. Each call costs at most `REACH_WORK`.
        """
        newest = self.line.newest()
        end = upto if upto < newest else newest
        if rows < end - start:
            end = start + rows
        return end <= start or self.line.reach(end)

    def plan_to(self, end: i64) -> None:
        """Record the end of a plan, which acquires the messages up to this sequence."""
        if end > self.planned:
            self.planned = end
        self.shared.acquire(end, may_come_back(self.queue), self.queue.storage is not None)

    def newest(self) -> i64:
        """Return the sequence of the newest readable message, in memory or on the disk; 0 if there is none."""
        pages = self.queue.pager
        newest = self.line.newest()
        if pages is not None and pages.first_readable(0) > 0:
            newest = pages.durable_end() - 1
        visible = visible_tail(self.queue)
        return newest if newest < visible else visible

    def is_on_disk(self, lo: i64, hi: i64) -> bool:
        """Return whether a message of (lo, hi] may be on a page on the disk."""
        pages = self.queue.pager
        if pages is None:
            return False
        first = pages.first_readable(lo + 1)
        return 0 < first <= hi


class ReadCounters:
    """Counters of a reader's requests since the broker's start."""

    __slots__ = ("plans", "blocks", "messages")

    def __init__(self) -> None:
        self.plans: i64 = 0
        self.blocks: i64 = 0
        self.messages: i64 = 0
        """Messages in blocks; messages that are read again count again."""

    def as_dict(self) -> dict[str, int]:
        """Return the counters as plain data."""
        return {"plans": int(self.plans), "blocks": int(self.blocks), "messages": int(self.messages)}


class BatchShare:
    """Share of this broker in the last batch of a query that reads several brokers."""

    __slots__ = ("servers", "cap", "messages")

    def __init__(self, servers: i64, cap: i64, messages: i64) -> None:
        self.servers: i64 = servers
        """Number of brokers."""
        self.cap: i64 = cap
        """Most messages of the whole batch; UNLIMITED for no limit."""
        self.messages: i64 = messages
        """Messages of the batch that are at this broker."""


class LeaseState:
    """Lease of a batch read: its owner, and its end."""

    def __init__(self, number: int, vhost: str, user: str, client: str, timeout_s: float) -> None:
        self.number = number
        self.vhost = vhost
        self.user = user
        self.client = client
        """Name of the connection that opened it, with its address."""
        self.query: str = ""
        """Id of the stream that the lease serves; empty for none, or if unknown."""
        self.timeout_s = timeout_s
        self.opened: float = 0.0
        self.until: float = 0.0
        """Time at which the lease ends without another block."""
        self.finished: bool = False
        """True once all pinned messages were read: the lease then ends after a short grace."""
        self.cursor = CursorState(vhost, "")
        """The lease's cursor, whose positions are the ranges to read."""

    def name(self) -> str:
        """Return the lease with its owner: the connection that opened it, and the query that it serves."""
        query = f" for query {self.query}" if self.query else ""
        return f"lease {self.number} of {self.client}{query}"


class CursorState:
    """Interface of one application's durable read position. `ranges/cursors.py` implements it."""

    def __init__(self, vhost: str, name: str, holder: PoolHolder | None = None) -> None:
        self.vhost = vhost
        self.name = name
        self.id: str = ""
        """Id of this cursor, unlike that of any cursor that had its name before; empty until an attach asks for it."""
        self.holder = PoolHolder("", vhost) if holder is None else holder
        """User who created the cursor, in the pool of cursors; only a virtual host after a restart."""
        self.token: int = 0
        self.positions: dict[str, Position] = {}
        self.polling: bool = False
        """True while a plan waits for messages."""
        self.room: PinnedRoom | None = None
        """Room that the cursor's query pins; None while the query is unknown."""
        self.touched: float = 0.0
        """Time of the holder's last request; 0 if there was none since the broker's start."""
        self.made: float = 0.0
        """Time at which the cursor was created, or restored at the broker's start."""
        self.lost: int = 0
        """Number of the cursor's queues that were deleted so far."""
        self.reader: int = 0
        self.reader_name: str = ""
        """Number and name of the connection that attached or planned last; 0 if there was none since the start."""
        self.tails_reader: int = -1
        """Number of the connection that knows the tails of all positions as `Position.reported`."""
        self.first_served: int = 0
        """Index of the queue with which the next plan begins, if not all queues can have the same share."""
        self.user: str = ""
        """The user that attached last; empty if the store's version did not record it."""
        self.reader_ended: float = 0.0
        """Time at which the reader's connection ended; 0 while it is open."""
        self.identity: str = ""
        """Id of the reader's query, unchanged by a restart of the query; empty if unknown."""
        self.counters = ReadCounters()
        self.share: BatchShare | None = None
        """Share of its last batch; None if its query reads one broker, or is not known to read more."""
        self.moved: bool = False
        """True if an operator has moved the cursor since the last attach."""
        self.lease: LeaseState | None = None
        """The lease that owns this cursor. Such a cursor pins the messages from `settled` to `planned`, and settles
        none.
        """

    def idle_since(self) -> float:
        """Return the time since which no reader is attached; infinity while a reader's connection is there.

        After a restart of the broker this time begins again, because nobody could attach.
        """
        if self.reader != 0 and self.reader_ended == 0.0:
            return NEVER
        return max(self.made, self.touched, self.reader_ended)

    def expires_s(self) -> float:
        """Return the seconds without a reader after which it expires: the least of its queues; infinity for never."""
        least = NEVER
        for position in self.positions.values():
            if position.queue.settings.cursor_expires_s < least and not position.queue.deleted:
                least = position.queue.settings.cursor_expires_s
        return least

    def hand_over(self, user: str) -> None:
        """Make the cursor belong to a user."""
        self.user = user


BEYOND: Final = 2
"""Part of a limit's capacity that the publishes of one query may use beyond the limit: 1/2."""


class QueryId(NamedTuple):
    """A query by its name, together with its user: other users cannot join it, or use the room that it pins."""

    user: str
    name: str


NO_QUERY: Final = QueryId("", "")


class PinnedRoom:
    """The cursors of one query, and the excess of its publishes over limits in which these cursors pin messages.

    The amounts are sums over all limits, so a query that meets several limits is judged more strictly.
    """

    def __init__(self, query: QueryId) -> None:
        self.query = query
        self.cursors: list[CursorState] = []
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Bytes (charges) of the query's publishes beyond limits."""

    def excuses(self, gate: Gate, messages: i64, bytes: i64) -> bool:
        """Return whether a publish of this amount need not wait at a gate, open or closed."""
        limit = gate.owner
        if not isinstance(limit, CountedDepth) or not self.pins(limit):
            return False
        capacity = limit.thresholds.capacity
        over = limit.messages - capacity.messages if limit.messages > capacity.messages else 0
        over_bytes = limit.bytes - capacity.bytes if limit.bytes > capacity.bytes else 0
        if over == 0 and over_bytes == 0:
            self.messages = 0
            self.bytes = 0
        return (
            self.messages + messages <= capacity.messages // BEYOND and self.bytes + bytes <= capacity.bytes // BEYOND
        )

    def pins(self, limit: CountedDepth) -> bool:
        """Return whether a cursor has planned messages that count in a limit, and has not settled them."""
        for cursor in self.cursors:
            for position in cursor.positions.values():
                if position.planned > position.settled and not position.queue.deleted and _counts(position, limit):
                    return True
        return False

    def take(self, messages: i64, bytes: i64) -> None:
        """Count a publish that passed a closed gate."""
        self.messages += messages
        self.bytes += bytes

    def give_back(self, messages: i64, bytes: i64) -> None:
        """Count messages that a cursor has settled."""
        self.messages = self.messages - messages if self.messages > messages else 0
        self.bytes = self.bytes - bytes if self.bytes > bytes else 0


class PinnedRooms:
    """The queries that read through cursors, by their users and their own names."""

    def __init__(self) -> None:
        self._rooms: dict[QueryId, PinnedRoom] = {}

    def of(self, query: QueryId) -> PinnedRoom | None:
        """Return the room of a query; None if it has no cursor."""
        return self._rooms.get(query)

    def assign(self, cursor: CursorState, name: str) -> None:
        """Record the query of the cursor's user that reads through it now; an empty name means unknown."""
        query = QueryId(cursor.user, name)
        room = cursor.room
        if room is not None:
            if room.query == query:
                return
            room.cursors.remove(cursor)
            if not room.cursors:
                del self._rooms[room.query]
            cursor.room = None
        if name:
            present = self._rooms.get(query)
            if present is None:
                present = PinnedRoom(query)
                self._rooms[query] = present
            present.cursors.append(cursor)
            cursor.room = present


def _counts(position: Position, limit: CountedDepth) -> bool:
    """Return whether the messages of a position count in a limit. All messages have the address of the first
    message.
    """
    if not isinstance(limit, AddressDepth):
        return limit in position.queue.membership.pools
    for message in position.line.between(position.settled, position.planned, 1, UNLIMITED):
        if message.share is not None:
            return message.share.depth is limit
    return False


class Settling(Chore):
    """Removal of messages that every cursor of a queue has settled, in slices."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue

    @override
    def has_more(self) -> bool:
        if not self.queue.cursors or retains_later(self.queue):
            return False
        shared = shared_of(self.queue)
        settled = settled_by_all(self.queue)
        if settled > shared.passed:
            return True
        return shared.has_passed()

    def work(self, most: i64, now: float) -> i64:
        """Drop messages; several are one unit of work. The settlement is counted already."""
        self.queue.counters.settled_at = now
        return drop_settled(self.queue, most * SETTLED_A_UNIT, now) // SETTLED_A_UNIT + 1


def trim_settled(queue: Queue, now: float) -> None:
    """Drop messages that every cursor of the queue has settled: a bounded number now, the rest in later turns.

    While the retention of the queue waits for the disk they stay in the queue; a write calls this again.
    """
    if retains_later(queue):
        return
    if drop_settled(queue, AT_ONCE, now) == AT_ONCE:
        if queue.settling is None:
            queue.settling = Settling(queue)
        queue.turns.chores.add(queue.settling)


def retains_later(queue: Queue) -> bool:
    """Return whether settled messages stay in a queue because its retention waits for the disk."""
    return queue.retention is not None and queue.retention.is_behind()


def settled_by_all(queue: Queue) -> i64:
    """Return the sequence up to which every cursor of a queue has settled; 0 without cursors. Leases settle no
    messages.
    """
    return settled_by(queue.cursors, queue.name)


def settled_by(cursors: list[CursorState], queue: str) -> i64:
    """Return the sequence up to which each of these cursors has settled a queue; 0 without cursors."""
    passed: i64 = UNLIMITED
    for cursor in cursors:
        if cursor.lease is not None:
            continue
        settled = cursor.positions[queue].settled
        if settled < passed:
            passed = settled
    return 0 if passed == UNLIMITED else passed


def passed_by_all(queue: Queue) -> i64:
    """Return the sequence up to which messages are only used by leases; 0 for a queue without cursors."""
    settled = settled_by_all(queue)
    ready = queue.ready_queue
    if isinstance(ready, SharedReadyQueue) and ready.passed > settled:
        return ready.passed
    return settled


def free_through(queue: Queue, start: i64) -> i64:
    """Return the sequence up to which messages after `start` may leave a queue: settled by every cursor, and not pinned
    by a lease.
    """
    passed = passed_by_all(queue)
    ready = queue.ready_queue
    return ready.free_through(start, passed) if isinstance(ready, SharedReadyQueue) else passed


def pin(queue: Queue) -> None:
    """Pin the messages that the leases of a queue read, after a change of the leases."""
    ranges: list[tuple[int, int]] = []
    for cursor in queue.cursors:
        if cursor.lease is not None:
            position = cursor.positions[queue.name]
            ranges.append((int(position.settled), int(position.planned)))
    shared_of(queue).set_pins(ranges)


def reader_of(queue: Queue) -> str:
    """Return the first reader of a queue with cursors that prevents a request; a lease with its end."""
    cursor = queue.cursors[0]
    for each in queue.cursors:
        if each.lease is None:
            cursor = each
            break
    lease = cursor.lease
    if lease is None:
        return f"cursor '{cursor.name}'"
    return f"{lease.name()}, of a batch read (`penstock leases end {lease.number}`)"


def has_lease(queue: Queue) -> bool:
    """Return whether a lease pins messages of a queue."""
    for cursor in queue.cursors:
        if cursor.lease is not None:
            return True
    return False


def has_cursor(queue: Queue) -> bool:
    """Return whether a queue has a cursor that is not a lease's."""
    for cursor in queue.cursors:
        if cursor.lease is None:
            return True
    return False


def drop_settled(queue: Queue, most: i64, now: float) -> i64:
    """Drop up to `most` messages that every cursor of the queue has settled; returns their number.

    Messages that were settled and never planned are left to the consumers, if there are any. Messages that a lease pins
    stay until the last such lease has ended.
    """
    ready = queue.ready_queue
    if not queue.cursors and not isinstance(ready, SharedReadyQueue):
        return 0
    shared, settled = shared_of(queue), settled_by_all(queue)
    if settled > 0:
        shared.pass_over(settled, bool(queue.consumers) or may_come_back(queue), queue.storage is not None)
        if settled > shared.passed:
            shared.passed = settled
    taken = shared.take_passed(most)
    if taken:
        size: i64 = 0
        for message in taken:
            size += message.charge
            if queue.length is not None:
                queue.length.on_removed(message)
        if queue.tracks_removals:
            queue.accept(list(taken), now)
        queue.counters.count_delivered(len(taken), size)
        queue.settle(len(taken), size, now)
    return len(taken)


def may_come_back(queue: Queue) -> bool:
    """Return whether consumers have, or had, older messages that may be requeued."""
    return queue.unacked_messages + queue.delayed_messages > 0 or shared_of(queue).aside.available() > 0


def shared_of(queue: Queue) -> SharedReadyQueue:
    """Return the ready messages of a queue as cursors and consumers share them; converts the messages of a queue
    without cursors.
    """
    ready = queue.ready_queue
    if isinstance(ready, SharedReadyQueue):
        return ready
    line = indexed(in_order(ready))
    assert isinstance(line, IndexedReadyQueue), "a queue with priorities has no cursor"
    shared = SharedReadyQueue(line)
    queue.ready_queue = shared
    return shared


class Lag:
    """Messages of a queue beyond a position, and the arrival of the oldest."""

    __slots__ = ("messages", "bytes", "oldest_arrived")

    def __init__(self, messages: i64, bytes: i64, oldest_arrived: float) -> None:
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        """Sum of the messages' charges."""
        self.oldest_arrived = oldest_arrived
        """Arrival time of the oldest message; infinity without messages, and for a message that is only on the disk."""

    def oldest_s(self, now: float) -> float | None:
        """Return the age of the oldest message in seconds: 0 without messages, None if it is only on the disk."""
        if self.oldest_arrived == NEVER:
            return 0.0 if self.messages == 0 else None
        return max(now - self.oldest_arrived, 0.0)


def lag_of(position: Position, work: WorkMeter) -> Lag | None:
    """Return the lag at a position; see `lag_after`."""
    return lag_after(position, position.settled, work)


def lag_after(position: Position, sequence: i64, work: WorkMeter) -> Lag | None:
    """Return the number of messages and bytes of a queue beyond a sequence.

    None if the lag cannot be counted now: the sequence is among messages on the disk, or so far beyond the index that
    the index reaches it only at a later look.
    """
    queue = position.queue
    if queue.deleted or sequence >= queue.tail:
        return Lag(0, 0, NEVER)
    pages = queue.pager
    if pages is not None and pages.retains:
        after = queue.tail - (sequence if sequence >= pages.next else pages.next - 1)
        size = pages.bytes * after // pages.messages if pages.messages > 0 else 0
        return Lag(after, size, NEVER)
    line = position.line
    left: i64 = REACHED_AT_ONCE
    while not line.reach(sequence):
        work.done += REACH_WORK
        left -= 1
        if left == 0:
            return None
    if pages is not None and pages.messages > 0 and sequence >= pages.next:
        return None
    passed, passed_bytes = line.count_through(sequence)
    oldest = line.step()
    return Lag(
        queue.ready_messages() - passed,
        queue.depth_bytes() - queue.unacked_bytes - queue.delayed_bytes - passed_bytes,
        NEVER if oldest is None else oldest.arrived,
    )


def holds_back(position: Position) -> bool:
    """Return whether no other cursor of the queue has settled less, so that messages settled by this cursor leave the
    queue.

    Leases do not count, because they end by themselves.
    """
    queue = position.queue
    for cursor in queue.cursors:
        if cursor.lease is None and cursor.positions[queue.name].settled < position.settled:
            return False
    return not queue.deleted
