"""Arrival of a batch in a queue, a slice a turn: its room, and the point up to which readers see the queue.

Theory of operation. A batch that is promoted is admitted as a whole, and enters its queues over several turns. Its room
is *promised* from the admission on, so no other publish takes it. While the batch enters, consumers of the queue get
nothing, and cursors and basic.get see nothing after the *horizon*: the last sequence before the batch. So nobody sees a
part of it. Others may publish meanwhile; their messages wait behind the horizon as well.

A purge is after the admission, so it takes the rest of the batch too. The same holds for the deletion of the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.work import Chore

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class Arrival:
    """The part of a batch that goes into one queue."""

    def __init__(self, queue: Queue, messages: i64, bytes: i64) -> None:
        self.queue = queue
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        """Messages that have not entered yet, and their bytes (charges)."""
        self.horizon: i64 = 0
        """The last sequence that readers see; set when the first message is about to enter."""
        self.purged: bool = False
        """True if arrivals that have not entered yet are dropped."""
        self._in_memory: bool = False
        self._on_disk: bool = False
        """True if the room is promised among that of the memory, or of the pages."""

    def promise(self, now: float) -> None:
        """Keep room for all its messages. A queue that drops its oldest messages needs none."""
        queue = self.queue
        if queue.deleted:
            return
        if queue.overflow.pages and queue.pager is not None:
            self._on_disk = True
        elif not queue.overflow.drops:
            self._in_memory = True
        self._promise(self.messages, self.bytes)
        queue.update_gate(now)

    def pass_one(self, charge: i64) -> None:
        """Use, or give up, the room of one message."""
        self.messages -= 1
        self.bytes -= charge
        self._promise(-1, -charge)

    def begin(self) -> None:
        """Hide all messages that arrive after this call."""
        self.horizon = self.queue.tail
        self.queue.reserved.set_arrival(self)

    def end(self, now: float) -> None:
        """Give up the rest of the room, and show everything that has come."""
        self._promise(-self.messages, -self.bytes)
        self._in_memory = False
        self._on_disk = False
        queue = self.queue
        if queue.reserved.arrival() is self:
            queue.reserved.set_arrival(None)
        queue.update_gate(now)

    def _promise(self, messages: i64, bytes: i64) -> None:
        pager = self.queue.pager
        if self._in_memory:
            self.queue.reserved.promise(messages, bytes)
        elif self._on_disk and pager is not None:
            pager.promised_messages += messages
            pager.promised_bytes += bytes


def visible_tail(queue: Queue) -> i64:
    """Return the last sequence of a queue that readers see."""
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
        """Make room for a message with this charge; the largest counts if several wait."""
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
