"""Recovery: restores the messages of a store's rows, except messages that its settlement records list as settled.

The queues exist already, with their numbers (metadata_records.py) and positions. Rows arrive oldest first. A message
may have moved to a younger row, so each queue's messages are sorted before they are enqueued.

Only the headers of pages are read: pages stay on disk. Pages with settlements were being consumed and were in memory,
with all pages before them. These pages are read, and their remaining messages are loaded into memory again. No page
stays on disk before a message in memory.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.broker import Broker
from penstock.core.gates.address_depth import AddressShare, share_of
from penstock.core.journal.group import JournalGroup, SettlementRecord
from penstock.core.journal.journal import Journal
from penstock.core.message import DelayedEnvelope, Envelope, StoredMessage
from penstock.core.queue.cursor_state import trim_settled
from penstock.core.queue.delays import prepare
from penstock.core.queue.pager import enable_paging
from penstock.core.queue.queue import Queue
from penstock.core.queue.storage import restore
from penstock.core.queue.stream_log import log_of
from penstock.persistence.rows import RowContext
from penstock.persistence.settlements import MessageAudit, RowSettlements, decode_settlement
from penstock.store.records import BodyPiece, MessageRow, QueuePosition, RowBodies

READ_BYTES: Final = 8 * 1024 * 1024
"""Bytes of pages read at once."""


class Wanted(NamedTuple):
    """Arguments of `Store.pages` for pages that must be read."""

    queue: int
    first: int
    most: int


class Recovery(RowContext):
    """Recovery of one store; `finish` completes it.

    `was_left` is False if the last broker may have been cut off from the store, and have delivered messages without
    moving their redelivery mark. Then all messages count as delivered.
    """

    def __init__(self, broker: Broker, journal: Journal, wall_offset: float, was_left: bool = True) -> None:
        exchanges = [exchange for vhost in broker.vhosts.values() for exchange in vhost.exchanges.values()]
        super().__init__(wall_offset, False, broker.table.has_topics() or any(exchange.gates for exchange in exchanges))
        self.broker = broker
        self.now = broker.now
        self._was_left = was_left
        self.journal = journal
        self.large = journal.pieces.large
        self.bodies_gone: int = 0
        """Number of bodies without a message; these are deleted."""
        self._row_bodies: dict[int, tuple[int, ...]] = {}
        """Bodies of each row's large messages."""
        self.messages: int = 0
        """Number of restored messages."""
        self._queues: dict[int, Queue] = {}
        self._found: dict[int, list[StoredMessage]] = {}
        self._fates: dict[int, RowSettlements] = {}
        self._pages: dict[int, deque[MessageRow]] = {}
        """Pages on disk by queue, in order, without their data."""
        self._upto: dict[int, int] = {}
        """Highest sequence number by queue whose message is in memory."""
        broker.gates.topics.keep_empty(True)  # Messages that are decoded count in the depths of addresses at the end.
        self.account = MessageAudit()
        self._settlements: list[SettlementRecord] = []
        """Settlements of rows that are still to be read."""
        self._highest: int = 0
        for vhost in broker.vhosts.values():
            for queue in vhost.queues.values():
                if queue.storage is not None:
                    self._queues[int(queue.storage.number)] = queue
                    self._found[int(queue.storage.number)] = []
                    self.account.name(int(queue.storage.number), queue.vhost, queue.name)

    def position(self, position: QueuePosition) -> None:
        """Record a position."""
        number, tail, delivered, messages = position
        self.account.expect(number, messages)
        queue = self._queues.get(number)
        if queue is not None and queue.storage is not None:
            queue.raise_tail(tail)
            queue.storage.delivered = delivered if self._was_left else max(tail, delivered)
            queue.storage.redelivery_mark = delivered

    def settlement(self, number: int, data: bytes) -> None:
        """Record a settlement record. All settlement records precede the rows. Raises StoreError."""
        decode_settlement(number, data, self._fates)
        self._highest = max(self._highest, number)

    def piece(self, piece: BodyPiece) -> None:
        """Record a piece of a body, without its data. All pieces precede the rows."""
        self.large.ledger.count(piece.body, piece.size)
        self.large.next_number = max(int(self.large.next_number), piece.body + 1)

    def row_bodies(self, record: RowBodies) -> None:
        """Record the bodies of a row. All bodies of rows precede the rows."""
        self._row_bodies[record.number] = record.bodies
        self.large.next_number = max(int(self.large.next_number), max(record.bodies, default=0) + 1)

    def row(self, row: MessageRow) -> None:
        """Decode a row, or record the header of a page. Raises StoreError for a damaged row, which then has no
        effect.
        """
        number = row.number
        self._highest = max(self._highest, number)
        if row.queue == 0:
            self._read(row)
            return
        self.journal.next_queue = max(int(self.journal.next_queue), row.queue + 1)
        if row.queue in self._queues and row.messages > 0:
            self._pages.setdefault(row.queue, deque()).append(row)
            if number in self._fates:
                self._upto[row.queue] = max(self._upto.get(row.queue, 0), row.first)
        else:
            self._read(row)  # Pages of deleted or transient queues count as empty.

    def wanted(self) -> Wanted | None:
        """Return the pages to read next; None at the end. Called after all rows."""
        for number, pages in self._pages.items():
            sequences = [int(message.sequence) for message in self._found[number]]
            upto = max(self._upto.get(number, 0), max(sequences, default=0))
            self._upto[number] = upto
            if pages[0].first <= upto:
                return Wanted(number, pages[0].first, READ_BYTES)
        return None

    def pages(self, wanted: Wanted, rows: list[MessageRow]) -> None:
        """Decode pages that the store returned. Raises StoreError."""
        pages, upto = self._pages[wanted.queue], self._upto[wanted.queue]
        there = {row.number: row for row in rows}
        last = rows[-1].first if rows else upto
        while pages and pages[0].first <= min(upto, last):
            row = there.get(pages.popleft().number)
            if row is not None:  # Otherwise the page is damaged, and the store has reported the damage.
                self._read(row)
        if not pages:
            del self._pages[wanted.queue]

    def _read(self, row: MessageRow) -> None:
        number = row.number
        group = JournalGroup(number)
        if row.data:
            self.read(group, row.data)
        fate = self._fates.pop(number, None)
        if fate is not None:
            if row.data:
                fate.apply(group)
            for reference in fate.references:
                group.settlement_records.append(reference)
                reference.rows += 1
        for run in group.runs:
            self._found[int(run.storage.number)] += [message for message in run.messages if message.group is not None]
            run.messages = []
        self.journal.restore(group)
        self.messages += int(group.live)

    def finish(self) -> None:
        """Enqueue all messages in order and update the gates of the queues."""
        self.journal.number_from(self._highest + 1)
        for fate in self._fates.values():
            self._settlements += fate.references
        self.journal.open.stale += [int(reference.number) for reference in self._settlements if reference.rows == 0]
        broker = self.broker
        for number, queue in self._queues.items():
            messages = self._found[number]
            messages.sort(key=_sequence_of)
            if any(isinstance(message.envelope, DelayedEnvelope) for message in messages):
                prepare(broker, [queue])
            restore(queue, messages, broker.now)
            self._leave_on_disk(queue, self._pages.get(number))
            assert queue.storage is not None
            queue.storage.rows = len(messages)
            self.account.find(number, int(queue.storage.has_stored()))
        for queue in self._queues.values():
            broker.vhosts[queue.vhost].setup_retention(queue)
            trim_settled(queue, broker.now)
            broker.watch_lifetime(queue)
            broker.schedule_delivery(queue)
        broker.gates.topics.keep_empty(False)
        self._delete_bodies()
        broker.apply_gate_transitions()

    def queue(self, number: i64) -> Queue | None:
        """Return a queue by its number; None if it was deleted."""
        return self._queues.get(int(number))

    @override
    def share(self, queue: Queue, address: Envelope, charge: i64) -> AddressShare | None:
        vhost = self.broker.vhosts[queue.vhost]
        exchange = vhost.exchanges.get(address.exchange)
        if exchange is None or not address.exchange:
            return None
        topic = self.broker.gates.topics.gates(vhost, exchange, address.routing_key)
        return share_of(exchange.gates if topic is None else topic.present(), charge)

    def _leave_on_disk(self, queue: Queue, pages: deque[MessageRow] | None) -> None:
        """Register pages with a queue, which loads each page when needed."""
        if queue.features.type.retains:
            self._leave_in_log(queue, pages)
            return
        if pages is None:
            return
        enable_paging(self.broker, queue)
        messages, size = sum(page.messages for page in pages), sum(page.size for page in pages)
        self.messages += messages
        assert queue.pager is not None
        queue.pager.restore(messages, size, pages[0].first)
        for page in pages:
            if page.number in self._row_bodies:
                queue.pager.bodies.restore(page.number, self._row_bodies[page.number])
        queue.raise_tail(pages[-1].first + pages[-1].messages - 1)
        queue.apply_settings(queue.settings, self.broker.now)

    def _leave_in_log(self, queue: Queue, pages: deque[MessageRow] | None) -> None:
        """Register pages with the log of a stream."""
        log = log_of(queue)
        for page in [] if pages is None else pages:
            self.messages += page.messages
            if page.number in self._row_bodies:
                log.bodies.restore(page.number, self._row_bodies[page.number])
            log.restore_page(page.first, page.messages, page.size, page.number)
            queue.raise_tail(page.first + page.messages - 1)
        if pages is None:
            log.next = queue.tail + 1
        queue.apply_settings(queue.settings, self.broker.now)

    def _delete_bodies(self) -> None:
        """Delete the bodies without a message: of unfinished publishes, and of settled messages."""
        ledger = self.large.ledger
        ledger.take_unreferenced()
        gone = [number for number in ledger.stored if not ledger.holds(number)]
        self.bodies_gone = len(gone)
        self.journal.pieces.delete(gone)
        self._row_bodies.clear()


def _sequence_of(message: StoredMessage) -> int:
    return int(message.sequence)
