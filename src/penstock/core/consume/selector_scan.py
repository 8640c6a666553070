"""Scan of a consumer with a filter: it takes the messages that match, in order, and leaves the others.

Theory of operation. The consumer keeps a place in each line of its queue (`IndexedReadyQueue`): it has looked at
everything before. Its turn looks at the messages after the place, until it has as many as it may have, or has done a
slice of work. So each message is looked at once for each consumer. A message that a consumer has skipped, or not, stays
in the depth and in its order for all others. A consumer without credit has no turn, and so does not look.

A consumer that has looked at everything waits (`UNMATCHED`) and costs nothing until messages come. Only messages in
memory are looked at. Those on the disk come into memory in their order, while there is room; a queue full of messages
that nobody takes is not read further (as in Artemis).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.consumer import BATCH_BYTES, BATCH_MESSAGES, Batch, Consumer, Scan
from penstock.core.message import Message
from penstock.core.queue.indexed_ready_queue import REACH_WORK, IndexedReadyQueue, Place, lines_of

if TYPE_CHECKING:
    from penstock.core.consume.message_filter import MessageFilter
    from penstock.flow.work import WorkMeter

SLICE: Final = 500
"""Units of work of one turn of a scan."""


class SelectorScan(Scan):
    """The scan of one consumer that takes messages."""

    def __init__(self, consumer: Consumer, filter: MessageFilter, work: WorkMeter) -> None:
        self.consumer = consumer
        self.filter = filter
        self.work = work
        self._places: dict[IndexedReadyQueue, Place] = {}
        self._unfit: Message | None = None
        """A message that matches and was larger than the byte windows; it is looked at next, without the filter."""
        self._unfit_line: IndexedReadyQueue | None = None
        self._met_unfit: bool = False
        """True if this slice has come to it."""

    @override
    def check(self) -> None:
        self.filter.check(self.consumer.queue)

    @override
    def memory(self) -> int:
        return self.filter.memory()

    @override
    def begin(self) -> None:
        for line in lines_of(self.consumer.queue.ready_queue):
            self._place(line)

    @override
    def end(self) -> None:
        for line, place in self._places.items():
            line.remove_place(place)
        self._places.clear()

    def _place(self, line: IndexedReadyQueue) -> Place:
        place = self._places.get(line)
        if place is None:
            place = Place()
            self._places[line] = place
            line.add_place(place)
        return place

    @override
    def take(self, room: i64, now: float) -> Batch | None:
        if room > BATCH_MESSAGES:
            room = BATCH_MESSAGES
        until = self.work.done + SLICE
        found: list[Message | None] = []
        charge: i64 = 0
        self._met_unfit = False
        for line in lines_of(self.consumer.queue.ready_queue):
            charge = self._look(line, room, until, found, charge)
            if len(found) >= room or charge >= BATCH_BYTES or self.work.done >= until or self._met_unfit:
                break
        if not found:
            return None
        return self.consumer.session.hand_out(self.consumer, found, charge, now)

    def _look(self, line: IndexedReadyQueue, room: i64, until: i64, found: list[Message | None], charge: i64) -> i64:
        """Look at the messages of a line and add those that match to `found`; returns the sum of their charges."""
        place = self._place(line)
        while place.missed and len(found) < room and charge < BATCH_BYTES and self.work.done < until:
            missed: i64 = place.missed[0]
            if not line.reach(missed - 1):
                self.work.done += REACH_WORK
                continue
            message = line.step()
            if message is not None and message.sequence == missed:
                charge += self._consider(line, message, found, charge)
                if self._met_unfit:
                    return charge
            del place.missed[0]
        if place.missed:
            return charge
        while not line.reach(place.position):
            self.work.done += REACH_WORK
            if self.work.done >= until:
                return charge
        while len(found) < room and charge < BATCH_BYTES and self.work.done < until:
            message = line.step()
            if message is None:
                break
            charge += self._consider(line, message, found, charge)
            if self._met_unfit:
                break
            place.position = message.sequence
        return charge

    def _consider(self, line: IndexedReadyQueue, message: Message, found: list[Message | None], charge: i64) -> i64:
        """Take the message that the line has come to, if it matches; returns its charge, or 0.

        One that does not fit into the byte windows is noted as `_unfit`.
        """
        if message is self._unfit:
            self._unfit = None
        else:
            matches = self.filter.matches(message)
            self.work.done += self.filter.work + self.filter.searched
            if not matches:
                return 0
        consumer = self.consumer
        if consumer.has_byte_limit() and not consumer.accepts(len(found), charge, message.charge):
            self._unfit = message
            self._unfit_line = line
            self._met_unfit = True
            return 0
        line.take_stepped()
        found.append(message)
        return message.charge

    @override
    def has_more(self) -> bool:
        for line in lines_of(self.consumer.queue.ready_queue):
            if line.has_after(self._place(line)):
                return True
        return False

    @override
    def is_reading(self) -> bool:
        pager = self.consumer.queue.pager
        return pager is not None and pager.is_reading()

    @override
    def next_fits(self) -> bool:
        message, line = self._unfit, self._unfit_line
        if message is None or line is None:
            return True
        return not line.holds(message) or self.consumer.accepts(0, 0, message.charge)

    @override
    def available(self) -> i64:
        queue = self.consumer.queue
        count: i64 = queue.coming_back
        if queue.pager is not None:
            count += queue.pager.messages
        for line in lines_of(queue.ready_queue):
            count += line.count_after(self._place(line))
        return count

    @override
    def obstacle(self) -> str:
        pager = self.consumer.queue.pager
        waits = self.filter.describe()
        if pager is not None and pager.messages > 0:
            return f"{waits}; {int(pager.messages):,} messages on the disk are read when there is room for them"
        return waits
