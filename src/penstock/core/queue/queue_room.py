"""Room of a queue: reserved for granted credit, promised to batches that are entering it, and made by chores.

Theory of operation. A promoted batch is admitted as a whole, and enters its queues over several turns (`Arrival`). Its
room is *promised* from the admission on, so no other publish takes it. While the batch enters, consumers of the queue
get no messages, and cursors and basic.get see no messages after the *horizon*: the last sequence before the batch. So
no reader sees a part of the batch. Other messages may enter meanwhile; they wait behind the horizon as well.

A purge comes after the admission, so it removes the rest of the batch too. The same holds for the deletion of the
queue. Chores make room for a large message, and after a purge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.journal.journal import Removal
from penstock.core.message import Message
from penstock.core.queue.deferred_free import DeferredFree
from penstock.flow.level import Level
from penstock.flow.reserved_room import ReservedRoom, RoomHolder
from penstock.flow.work import Chore, Chores

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class PromisedRoom:
    """Room of a queue that is promised to batches being promoted, and the batch that is entering the queue."""

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.arrival: Arrival | None = None
        """The batch that is entering the queue, one slice a turn; None at other times."""
        self.paused: bool = False
        """True while the queue delivers nothing, because its retention waits for the disk."""


class QueueRoom(ReservedRoom):
    """The reserved room of one queue, which is not part of its depth."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue
        self._promised: PromisedRoom | None = None
        """Room promised to batches that are being promoted (`Arrival`), and other reasons to deliver nothing; usually
        None.

        Shared limits count such batches where they are staged.
        """
        self.most_messages: i64 = 0
        self.most_bytes: i64 = 0
        """Depth up to which a message on credit takes its own room by the fast path, even if others wait."""

    def arrival(self) -> Arrival | None:
        """Return the batch that is entering the queue, one slice a turn; None at other times."""
        promised = self._promised
        return None if promised is None else promised.arrival

    def holds_deliveries(self) -> bool:
        """Return whether the queue delivers nothing now: a part of a batch would be visible, or retention waits."""
        promised = self._promised
        return promised is not None and (promised.arrival is not None or promised.paused)

    def is_paused(self) -> bool:
        """Return whether the queue delivers nothing because its retention waits for the disk."""
        promised = self._promised
        return promised is not None and promised.paused

    def pause(self, paused: bool) -> None:
        """Stop the deliveries of the queue, or go on with them."""
        self._promises().paused = paused
        self._end_promises()

    def set_arrival(self, arrival: Arrival | None) -> None:
        """Set the batch that is entering the queue."""
        self._promises().arrival = arrival
        self._end_promises()

    def promised_messages(self) -> i64:
        """Return the number of promised messages."""
        promised = self._promised
        return 0 if promised is None else promised.messages

    def promised_bytes(self) -> i64:
        """Return the bytes (charges) of promised messages."""
        promised = self._promised
        return 0 if promised is None else promised.bytes

    def reserves(self) -> bool:
        """Return whether granted credit reserves room here: the queue holds publishes that do not fit into memory."""
        queue = self.queue
        return queue.overflow.reserves and not queue.deleted and queue.pager is None

    def reserve(self, holder: RoomHolder, messages: i64, bytes: i64, still: bool, now: float) -> None:
        """Reserve room, or (negative) release it; see `ReservedRoom.count`."""
        self.count(holder, messages, bytes, still)
        self.queue.update_gate(now)

    def set_most(self, paging: bool) -> None:
        """Set the depth up to which the fast path accepts messages on credit: while the gate is open, the stop
        threshold.

        Shared limits lower it. `paging`: messages are on pages.
        """
        queue = self.queue
        self.most_messages = 0
        self.most_bytes = 0
        if self.messages > 0 and queue.gate.open and queue.length is None:
            if not (queue.operator_gated or queue.deleted or paging):
                stop = queue.thresholds.stop
                self.most_messages = stop.messages
                self.most_bytes = stop.bytes + stop.uncounted * queue.messages

    def take_place(self, charge: i64, reserved: i64) -> i64:
        """As `Queue.take_place`, for a message that uses so many reserved bytes."""
        queue = self.queue
        messages = queue.messages + 1
        size = queue.bytes + charge
        if messages > self.most_messages or size > self.most_bytes:
            return 0
        queue.messages = messages
        queue.bytes = size
        queue.tail += 1
        self.messages -= 1
        self.bytes -= reserved
        return queue.tail

    def return_places(self, messages: i64, bytes: i64) -> None:
        """Reserve again the amount that `take_place` used, because its holder counts the message now."""
        self.messages += messages
        self.bytes += bytes

    def promise(self, messages: i64, bytes: i64) -> None:
        """Promise room to a batch, or (negative) release it; the caller updates the gate."""
        self.messages += messages
        self.bytes += bytes
        promised = self._promises()
        promised.messages += messages
        promised.bytes += bytes
        self._end_promises()

    def _promises(self) -> PromisedRoom:
        promised = self._promised
        if promised is None:
            promised = PromisedRoom()
            self._promised = promised
        return promised

    def _end_promises(self) -> None:
        promised = self._promised
        if promised is None or promised.paused or promised.arrival is not None:
            return
        if promised.messages == 0 and promised.bytes == 0:
            self._promised = None

    def take_arriving(self) -> i64:
        """Drop the arrivals that have not entered yet, for a purge; returns their number."""
        arrival = self.arrival()
        if arrival is None or arrival.purged:
            return 0
        arrival.purged = True
        return arrival.messages

    def free(self) -> Level:
        """Return the room that is neither filled nor reserved."""
        queue = self.queue
        return queue.thresholds.capacity.less(queue.messages + self.messages, queue.bytes + self.bytes)

    def free_below_stop(self) -> Level:
        """Return the room for exact credit: the room that depth and reservations leave below the stop threshold."""
        queue = self.queue
        return queue.thresholds.exact().less(queue.messages + self.messages, queue.bytes + self.bytes)

    def may_open(self) -> bool:
        """Return whether the depth lets a closed gate open: underfull, and below stop if exact credit is wanted."""
        queue = self.queue
        messages, size = queue.depth_messages(), queue.depth_bytes()
        if not queue.thresholds.underfull(messages, size):
            return False
        return queue.gate.exact_requests == 0 or queue.thresholds.exact().covers(messages + 1, size + 1)

    def close_for_exact(self, now: float) -> None:
        """Close the gate, as the next message would: all room below stop is granted, and exact credit has no room.

        The gate stays open at a depth at which it would open at once: then only reservations are in the way.
        """
        queue = self.queue
        if queue.gate.open and not queue.deleted and not self.may_open():
            queue.gate.close(queue.depth_messages(), queue.measure().bytes, now)
            queue.update_gate(now)

    @override
    def shared(self) -> Level:
        queue = self.queue
        promised = self._promised
        if promised is None:
            return queue.thresholds.capacity.less(queue.messages, queue.bytes)
        return queue.thresholds.capacity.less(queue.messages + promised.messages, queue.bytes + promised.bytes)

    def review(self, now: float) -> None:
        """Revoke reserved room that no longer fits; all of it if none may be reserved."""
        queue = self.queue
        if self.messages > 0:
            if self.reserves():
                self.fit(queue.thresholds.capacity.less(queue.messages, queue.bytes), now)
            else:
                self.fit(Level(0, 0), now)


class Arrival:
    """The part of a batch that enters one queue."""

    def __init__(self, queue: Queue, messages: i64, bytes: i64, delayed: i64 = 0, delayed_bytes: i64 = 0) -> None:
        self.queue = queue
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        """Messages that have not entered yet, and their bytes (charges)."""
        self.delayed: i64 = delayed
        self.delayed_bytes: i64 = delayed_bytes
        """The part of these that the queue will delay, in memory."""
        self.horizon: i64 = 0
        """The last sequence that readers see; set when the first message is about to enter."""
        self.purged: bool = False
        """True if arrivals that have not entered yet are dropped."""
        self._in_memory: bool = False
        self._on_disk: bool = False
        """True if room is promised in the pages, except for delayed messages."""

    def promise(self, now: float) -> None:
        """Promise room for all messages. A queue that drops its oldest messages needs no promise."""
        queue = self.queue
        if queue.deleted:
            return
        if queue.overflow.pages and queue.pager is not None:
            self._on_disk = True
        elif not queue.overflow.drops:
            self._in_memory = True
        self._promise_rest(1)
        queue.update_gate(now)

    def pass_one(self, charge: i64, is_delayed: bool = False) -> None:
        """Use, or release, the room of one message."""
        self.messages -= 1
        self.bytes -= charge
        if is_delayed:
            self.delayed -= 1
            self.delayed_bytes -= charge
        self._promise(-1, -charge, is_delayed)

    def begin(self) -> None:
        """Hide all messages that arrive after this call."""
        self.horizon = self.queue.tail
        self.queue.reserved.set_arrival(self)

    def end(self, now: float) -> None:
        """Release the rest of the room, and show all messages that have arrived."""
        self._promise_rest(-1)
        self._in_memory = False
        self._on_disk = False
        queue = self.queue
        if queue.reserved.arrival() is self:
            queue.reserved.set_arrival(None)
        queue.update_gate(now)

    def _promise_rest(self, sign: i64) -> None:
        """Promise (1) or release (-1) the room of all messages that have not entered."""
        self._promise(sign * (self.messages - self.delayed), sign * (self.bytes - self.delayed_bytes), False)
        if self.delayed > 0:
            self._promise(sign * self.delayed, sign * self.delayed_bytes, True)

    def _promise(self, messages: i64, bytes: i64, delayed: bool) -> None:
        pager = self.queue.pager
        if self._in_memory or (self._on_disk and delayed):
            self.queue.reserved.promise(messages, bytes)
        elif self._on_disk and pager is not None:
            pager.promised_messages += messages
            pager.promised_bytes += bytes


def visible_tail(queue: Queue) -> i64:
    """Return the last sequence of a queue that readers may see."""
    arrival = queue.reserved.arrival()
    return queue.tail if arrival is None else arrival.horizon


def hides_next(queue: Queue) -> bool:
    """Return whether the next ready message may not be taken yet."""
    arrival = queue.reserved.arrival()
    if arrival is None:
        return False
    message = queue.ready_queue.next()
    return message is not None and message.sequence > arrival.horizon


DROPPED_A_UNIT: Final = 8
"""Messages dropped with one unit of work."""


class Clearing(Chore):
    """Removal of a queue's oldest messages until a waiting message fits."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue
        self._charge: i64 = 0

    def begin(self, charge: i64) -> None:
        """Make room for a message with this charge; the largest charge counts if several wait."""
        if not self.listed or charge > self._charge:
            self._charge = charge
        self.queue.turns.chores.add(self)

    @override
    def has_more(self) -> bool:
        queue = self.queue
        return queue.overflow.drops and queue.available() > 0 and not queue.deleted and not queue.fits(self._charge)

    @override
    def work(self, most: i64, now: float) -> i64:
        left: i64 = most * DROPPED_A_UNIT
        while left > 0 and self.has_more() and not self._is_crowded():
            self.queue.drop_oldest(now)
            left -= 1
        self.queue.update_gate(now)
        return most - left // DROPPED_A_UNIT + 1

    def _is_crowded(self) -> bool:
        letters = self.queue.dead_letters
        return letters is not None and letters.crowded()


class Leftovers(DeferredFree):
    """Purged messages that still count in the store or in addresses."""

    def __init__(self, queue: Queue) -> None:
        super().__init__(True)
        self.queue = queue
        self.removal: Removal | None = None
        """The purge that ends with the last of these messages, if a client may wait for it."""

    @override
    def begin(self, chores: Chores) -> None:
        queue = self.queue
        if self.has_more() and queue.storage is not None and not queue.deleted:
            self.removal = queue.storage.journal.removals.begin()
        super().begin(chores)

    @override
    def release(self, messages: list[Message | None], now: float) -> None:
        self.queue.release(messages, now)

    @override
    def work(self, most: i64, now: float) -> i64:
        done = super().work(most, now)
        storage = self.queue.storage
        if self.removal is not None and storage is not None and not self.has_more():
            storage.journal.finish_removal(self.removal)
            self.removal = None
        return done
