"""Scans of a queue: by a browser, which takes no messages, and by a consumer with a filter.

Theory of operation. A browser goes from the oldest message to the newest, and waits at the end for arrivals. Its
position is a sequence, so it skips messages that were settled meanwhile, and messages that were requeued behind it. It
reads ready messages only, not unacknowledged ones (as Artemis' and Qpid Broker-J's browsers do). An expired message
that was not removed yet is left out. Deliveries are settled from the beginning.

A queue that pages is read to its end. Copies of pages are read from the disk, one read at a time, and the pages stay
there. A message that was read is used only while its page is on the disk: once the page is in memory, the message is
read from memory.

The queue does not count a browser as a consumer: a browser does not keep an auto-delete queue, exclusive use does not
exclude it, and it is not in the round-robin order (as in Artemis).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.content.selector.fields import LIKE_WORK_MAX, PatternsTooCostly
from penstock.content.selector.selector import Selector
from penstock.core.consume.consumer import BATCH_BYTES, BATCH_MESSAGES, Batch, Consumer
from penstock.core.message import Message, OriginEnvelope, StoredMessage, TrackedMessage
from penstock.core.message_format import MessageFormats, UnreadableContent
from penstock.core.queue.context import QueueContext
from penstock.core.queue.indexed_ready_queue import REACH_WORK, IndexedReadyQueue, Place, lines_of
from penstock.core.queue.pager import PageReader
from penstock.core.queue.queue import Queue
from penstock.core.queue.ready_queue import Priorities
from penstock.core.queue.urgency import URGENT_IN_A_ROW, UrgencyTurns
from penstock.errors import NotSupported
from penstock.flow.work import WorkMeter

SLICE: Final = 500
"""Units of work of one turn of a scan."""


class Scan:
    """The scan of one consumer that does not simply take the next message of its queue."""

    copies: bool = False
    """True if the scan reads copies, and takes no messages (a browser)."""
    lends: bool = False
    """True if the deliveries of the scan are copies that its client settles (a consumer of a stream)."""

    def __init__(self, consumer: Consumer, filter: MessageFilter) -> None:
        self.consumer = consumer
        self.filter = filter
        self._places: dict[IndexedReadyQueue, Place] = {}

    def check(self) -> None:
        """Raise a BrokerError if this scan is impossible on the queue."""
        self.filter.check(self.consumer.queue)

    def memory(self) -> int:
        """Return the bytes of the selector, which count with the arguments of the consumer."""
        return self.filter.memory()

    def begin(self) -> None:
        """Begin when the consumer is subscribed: the messages of the queue have an index then."""
        raise NotImplementedError

    def end(self) -> None:
        """End when the consumer has ended."""
        raise NotImplementedError

    def take(self, room: i64, now: float) -> Batch | None:
        """Check further messages, a slice of them; return a batch of at most `room`, or None if no message matched."""
        raise NotImplementedError

    def has_more(self) -> bool:
        """Return whether there are messages to check."""
        raise NotImplementedError

    def is_reading(self) -> bool:
        """Return whether further messages will arrive without an event from outside, such as pages from the disk."""
        raise NotImplementedError

    def next_fits(self) -> bool:
        """Return whether the next message fits into the byte windows. True if the message's size is not known yet."""
        raise NotImplementedError

    def available(self) -> i64:
        """Return an upper bound of the messages that the consumer may still get, messages on the disk included."""
        raise NotImplementedError

    def obstacle(self) -> str:
        """Return the reason why the consumer gets no messages after it has checked all, as a phrase."""
        raise NotImplementedError

    def _place(self, line: IndexedReadyQueue) -> Place:
        """Return the position in a line; the first call creates it."""
        place = self._places.get(line)
        if place is None:
            place = Place()
            self._places[line] = place
        return place

    def _has_in_memory(self) -> bool:
        """Return whether messages in memory follow the scan's positions."""
        for line in lines_of(self.consumer.queue.ready_queue):
            if line.has_after(self._place(line)):
                return True
        return False


class SelectorScan(Scan):
    """The scan of a consumer that takes messages."""

    def __init__(self, consumer: Consumer, filter: MessageFilter, work: WorkMeter) -> None:
        super().__init__(consumer, filter)
        self.work = work
        self._unfit: Message | None = None
        """A matching message that was larger than the byte windows; the next slice checks it first, without the
        filter.
        """
        self._unfit_line: IndexedReadyQueue | None = None
        self._met_unfit: bool = False
        """True if this slice has reached the unfit message."""

    @override
    def begin(self) -> None:
        for line in lines_of(self.consumer.queue.ready_queue):
            self._place(line)

    @override
    def end(self) -> None:
        for line, place in self._places.items():
            line.remove_place(place)
        self._places.clear()

    @override
    def _place(self, line: IndexedReadyQueue) -> Place:
        place = self._places.get(line)
        if place is None:
            place = super()._place(line)
            line.add_place(place)
        return place

    @override
    def take(self, room: i64, now: float) -> Batch | None:
        if room > BATCH_MESSAGES:
            room = BATCH_MESSAGES
        until = self.work.done + SLICE
        messages: list[Message | None] = []
        charge: i64 = 0
        self._met_unfit = False
        ready = self.consumer.queue.ready_queue
        lines = lines_of(ready)
        turns = ready.turns if isinstance(ready, Priorities) else None
        if turns is not None and len(lines) == 2:
            charge = self._look_in_turn(turns, lines, room, until, messages)
        else:
            for line in lines:
                charge = self._look(line, room, until, messages, charge)
                if self._has_enough(room, until, messages, charge):
                    break
        if not messages:
            return None
        return self.consumer.session.hand_out(self.consumer, messages, charge, now)

    def _has_enough(self, room: i64, until: i64, messages: list[Message | None], charge: i64) -> bool:
        """Return whether the batch is full, or the slice is used up."""
        return len(messages) >= room or charge >= BATCH_BYTES or self.work.done >= until or self._met_unfit

    def _look_in_turn(
        self,
        turns: UrgencyTurns,
        lines: list[IndexedReadyQueue],
        room: i64,
        until: i64,
        messages: list[Message | None],
    ) -> i64:
        """Check the messages of both classes of a quorum queue, in turn; returns the sum of the charges.

        While both classes have matching messages, the batch gets two urgent messages for each other message.
        """
        charge: i64 = 0
        while not self._has_enough(room, until, messages, charge):
            before: i64 = len(messages)
            wanted = before + URGENT_IN_A_ROW - turns.taken
            charge = self._look(lines[0], wanted if wanted < room else room, until, messages, charge)
            urgent: i64 = len(messages) - before
            if urgent > 0:
                turns.count(urgent)
            if self._has_enough(room, until, messages, charge):
                break
            alone = urgent == 0 and wanted > before
            charge = self._look(lines[1], room if alone else before + urgent + 1, until, messages, charge)
            if alone:
                break
            turns.count(0)
        return charge

    def _look(self, line: IndexedReadyQueue, room: i64, until: i64, messages: list[Message | None], charge: i64) -> i64:
        """Check the messages of a line and add those that match to `messages`; returns the sum of their charges."""
        place = self._place(line)
        while place.missed and len(messages) < room and charge < BATCH_BYTES and self.work.done < until:
            missed: i64 = place.missed[0]
            if not line.reach(missed - 1):
                self.work.done += REACH_WORK
                continue
            message = line.step()
            if message is not None and message.sequence == missed:
                charge += self._consider(line, message, messages, charge)
                if self._met_unfit:
                    return charge
            del place.missed[0]
        if place.missed:
            return charge
        while not line.reach(place.position):
            self.work.done += REACH_WORK
            if self.work.done >= until:
                return charge
        while len(messages) < room and charge < BATCH_BYTES and self.work.done < until:
            message = line.step()
            if message is None:
                break
            charge += self._consider(line, message, messages, charge)
            if self._met_unfit:
                break
            place.position = message.sequence
        return charge

    def _consider(self, line: IndexedReadyQueue, message: Message, messages: list[Message | None], charge: i64) -> i64:
        """Take the next message of the line, if it matches; returns the charge, or 0.

        A message that does not fit into the byte windows becomes `_unfit`.
        """
        if message is self._unfit:
            self._unfit = None
        else:
            matches = self.filter.matches(message)
            self.work.done += self.filter.work + self.filter.searched
            if not matches:
                return 0
        consumer = self.consumer
        if consumer.has_byte_limit() and not consumer.accepts(len(messages), charge, message.charge):
            self._unfit = message
            self._unfit_line = line
            self._met_unfit = True
            return 0
        line.take_stepped()
        messages.append(message)
        return message.charge

    @override
    def has_more(self) -> bool:
        return self._has_in_memory()

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


COPIED_BYTES: Final = 64 * 1024
"""Bytes of data in one read from the disk, at least one page."""


class BrowserScan(Scan, PageReader):
    """The scan of one browser."""

    def __init__(self, consumer: Consumer, filter: MessageFilter, broker: QueueContext) -> None:
        super().__init__(consumer, filter)
        self.copies = True
        consumer.no_ack = True  # No delivery of a browser is ever settled.
        self.broker = broker
        self._copies: deque[StoredMessage] = deque()
        """Messages read from the disk, in order."""
        self._next: i64 = 0
        """First sequence of the next read from the disk."""
        self._requested: bool = False
        """True while a read is in progress."""
        self._over: bool = False

    @override
    def begin(self) -> None:
        pass

    @override
    def end(self) -> None:
        self._over = True
        self._copies.clear()
        self._places.clear()

    @override
    def take(self, room: i64, now: float) -> Batch | None:
        if room > BATCH_MESSAGES:
            room = BATCH_MESSAGES
        work = self.broker.work
        until = work.done + SLICE
        messages: list[Message | None] = []
        charge: i64 = 0
        lines = lines_of(self.consumer.queue.ready_queue)
        for line in lines:
            place = self._place(line)
            while not line.reach(place.position):
                work.done += REACH_WORK
                if work.done >= until:
                    break
            while len(messages) < room and charge < BATCH_BYTES and work.done < until:
                message = line.step()
                if message is None:
                    break
                place.position = message.sequence
                if self._wants(message, now):
                    messages.append(message)
                    charge += message.charge
        while len(messages) < room and charge < BATCH_BYTES and work.done < until:
            message = self._next_copy()
            if message is None:
                break
            self._place(lines[0]).position = message.sequence
            if self._wants(message, now):
                messages.append(message)
                charge += message.charge
        if messages:
            return self.consumer.session.hand_out_copies(self.consumer, messages, charge, now)
        if work.done < until:
            self._request_copies()
        return None

    def _wants(self, message: Message, now: float) -> bool:
        self.broker.work.done += self.filter.work
        if isinstance(message, TrackedMessage) and message.expires <= now:
            return False
        if message.arrived + self.consumer.queue.settings.message_ttl_s <= now:
            return False
        matches = self.filter.matches(message)
        self.broker.work.done += self.filter.searched
        return matches

    # The disk. A queue that pages has no priorities, and so one line.

    def _next_copy(self) -> StoredMessage | None:
        """Return the next message that was read from the disk and is still only there."""
        pager = self.consumer.queue.pager
        while self._copies:
            if pager is None or pager.messages == 0:
                self._copies.clear()
                break
            message = self._copies[0]
            if message.sequence < pager.next:
                if self._has_in_memory():
                    break  # The page has been loaded into memory, and is scanned there.
                self._copies.popleft()
                continue
            return self._copies.popleft()
        return None

    def _disk_position(self) -> i64:
        """Return the first sequence on the disk that was not read; 0 if there is none."""
        pager = self.consumer.queue.pager
        if pager is None:
            return 0
        first = self._next if self._next > pager.next else pager.next
        return first if first < pager.durable_end() else 0

    def _request_copies(self) -> None:
        pager = self.consumer.queue.pager
        first = self._disk_position()
        if pager is not None and first > 0 and not self._requested and not self._copies:
            self._requested = True
            self._next = first
            pager.request_copies(first, COPIED_BYTES, self)

    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        """See `PageReader.on_copies`. If no message matched, no page on the disk is read again."""
        self._requested = False
        queue = self.consumer.queue
        if self._over or queue.pager is None:
            return
        self._next = following if following > 0 else queue.pager.durable_end()
        self._copies.extend(messages)
        self.broker.schedule_delivery(queue)

    # Queries

    @override
    def has_more(self) -> bool:
        if self._has_in_memory() or self._copies:
            return True
        return not self._requested and self._disk_position() > 0

    @override
    def is_reading(self) -> bool:
        pager = self.consumer.queue.pager
        if pager is None or pager.messages == 0:
            return False
        return self._requested or self._next <= self.consumer.queue.tail

    @override
    def next_fits(self) -> bool:
        return True

    @override
    def available(self) -> i64:
        queue = self.consumer.queue
        count: i64 = 0
        for line in lines_of(queue.ready_queue):
            count += line.count_after(self._place(line))
        if queue.pager is not None:
            count += queue.pager.messages
        return count

    @override
    def obstacle(self) -> str:
        if self._requested:
            return "waits for messages that are read from the disk"
        if self.filter.selector is not None or self.filter.passed_over:
            return self.filter.describe()
        return "has seen all messages, and waits for new ones"


LOOK_WORK: Final = 1
"""Units of work to check a message, in addition to the units of a selector."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageFilter:
    """The filter of one consumer. The result for a message never changes, except through `excluded`."""

    def __init__(self, formats: MessageFormats, selector: Selector | None = None, excluded_origin: i64 = 0) -> None:
        self.formats = formats
        self.selector = selector
        """The selector; None matches every message."""
        self.excluded_origin: i64 = excluded_origin
        """Number of the connection whose messages are excluded (no-local); 0 for none."""
        self.receiver: Consumer | None = None
        """The consumer, from the beginning of the scan."""
        self.passed_over: str = ""
        """Reason why the last unsendable message cannot be sent to the consumer; "" before the first."""
        self.excluded: set[int] = set()
        """Sequences of messages that the consumer has excluded; see outcome.py."""
        self.work: i64 = LOOK_WORK if selector is None else LOOK_WORK + selector.work
        """Units of work for each message, in addition to `searched`."""
        self.searched: i64 = 0
        """Units of work to search the last message's texts for patterns."""

    def check(self, queue: Queue) -> None:
        """Raise NotSupported (406) for no-local on a queue that pages: paged messages have no origin."""
        if self.excluded_origin != 0 and queue.overflow.pages:
            raise NotSupported(
                f"no-local on queue '{queue.name}' in vhost '{queue.vhost}', whose overflow policy is page: messages "
                "that were on the disk do not tell which connection published them"
            )

    def memory(self) -> int:
        """Return the bytes of the selector."""
        return 0 if self.selector is None else self.selector.memory

    def matches(self, message: Message) -> bool:
        """Return whether a message matches.

        An unreadable message matches no selector, nor does a message whose texts are too long for all patterns
        together.
        """
        self.searched = 0
        if self.excluded_origin != 0:
            envelope = message.envelope
            if isinstance(envelope, OriginEnvelope) and envelope.origin.number == self.excluded_origin:
                return False
        if self.excluded and int(message.sequence) in self.excluded:
            return False
        receiver = self.receiver
        if receiver is not None and message.charge > receiver.session.sure_charge:
            why = receiver.session.passes_over(receiver.queue, message)
            if why:
                self.passed_over = why
                return False
        selector = self.selector
        if selector is None:
            return True
        content = message.content
        try:
            fields = self.formats.of(content).selectable(content)
        except UnreadableContent:
            return False
        try:
            return selector.matches(fields)
        except (UnreadableContent, PatternsTooCostly):
            return False
        finally:
            self.searched = LIKE_WORK_MAX - fields.work_left

    def describe(self) -> str:
        """Return the obstacle of a consumer that has checked all messages, as a phrase."""
        if self.passed_over:
            return f"waits for a message that its connection can be sent: {self.passed_over}"
        if self.selector is not None:
            return "waits for a message that its selector matches"
        if self.excluded and self.excluded_origin == 0:
            return "waits for a message that it has not called undeliverable"
        return "waits for a message that its own connection has not published"
