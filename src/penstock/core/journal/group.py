"""A journal group: the messages, settlements and metadata changes that are written together."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Final, cast

from mypy_extensions import i64, mypyc_attr, trait

from penstock.core.journal.moved_messages import MovedMessages
from penstock.core.large_bodies import PIECE_OCTETS, LargeBodies, PieceWrite
from penstock.core.message import StoredMessage, StoredRow
from penstock.flow.states import StateTable

GROUP_OPEN: Final = 0
"""The number of `GroupState.OPEN`, for the hot path."""


class GroupState(IntEnum):
    """States of a journal group."""

    OPEN = GROUP_OPEN
    """The group takes all durable operations."""
    SEALED = 1
    """The content is fixed; later removals belong to a later group."""
    WRITTEN = 2
    """The group is on disk."""


GROUP_STATES: Final = StateTable(
    "journal group",
    GroupState.OPEN,
    {
        GroupState.OPEN: {GroupState.SEALED: "closed", GroupState.WRITTEN: "read from the store"},
        GroupState.SEALED: {GroupState.WRITTEN: "transaction committed"},
    },
)


@trait
@mypyc_attr(allow_interpreted_subclasses=True)
class DurabilityListener:
    """A listener for the durability of a group."""

    def on_durable(self, group: JournalGroup) -> None:
        """Handle that the group is on disk."""
        raise NotImplementedError


class DurableChanges:
    """Counters of durable operations; a difference between two readings means that a reply must wait for the disk."""

    __slots__ = ("durable_ops", "durable_declarations")

    def __init__(self) -> None:
        self.durable_ops: i64 = 0
        """All operations: a commit with any of them waits."""
        self.durable_declarations: i64 = 0
        """Declarations, deletions and purges: their -ok waits."""


class SettlementRecord:
    """A stored record of settlements in rows; deleted when these rows are deleted."""

    __slots__ = ("number", "rows")

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.rows: i64 = 0
        """Approximate number of the record's rows left."""


class JournaledQueue:
    """A queue in the store, as the journal sees it; `QueueStorage` implements it."""

    __slots__ = (
        "number",
        "delivered",
        "announcing",
        "redelivery_mark",
        "lookahead",
        "progress_marked",
        "durable",
        "rows",
        "paged",
    )

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        """Number of the queue, never reused, not even for a queue of the same name."""
        self.delivered: i64 = 0
        """Highest delivered sequence."""
        self.announcing: i64 = 0
        self.redelivery_mark: i64 = 0
        """The redelivery mark in the store, or in the group that is being written (see core/queue/storage.py)."""
        self.lookahead: i64 = 0
        """Distance of the mark ahead of the deliveries, so that consumption is not delayed."""
        self.progress_marked: JournalGroup | None = None
        """The last group with the queue's progress."""
        self.durable: bool = True
        """True if the queue is durable; otherwise only its pages are stored, until a restart."""
        self.rows: i64 = 0
        """The queue's unsettled persistent messages in rows, without the open group."""
        self.paged: i64 = 0
        """The queue's persistent messages in pages, without the pages of the open group."""

    def has_stored(self) -> i64:
        """Return the number of the queue's stored messages once all settlements so far are written."""
        return self.rows + self.paged

    def announce(self) -> i64:
        """Return the redelivery mark to store now."""
        if self.delivered + self.lookahead == self.announcing:
            self.lookahead = 0  # No delivery since the last mark.
        self.announcing = self.delivered + self.lookahead
        if self.redelivery_mark > self.announcing:
            self.redelivery_mark = self.announcing
        return self.announcing

    def is_deleted(self) -> bool:
        """Return whether the queue is deleted."""
        raise NotImplementedError

    def tail(self) -> i64:
        """Return the sequence of the queue's newest message."""
        raise NotImplementedError


class MessageRun:
    """Consecutive messages of one queue."""

    __slots__ = ("storage", "start", "messages", "persistent_messages")

    def __init__(self, storage: JournaledQueue, start: i64) -> None:
        self.storage = storage
        self.start: i64 = start
        """Index of the first message."""
        self.messages: list[StoredMessage] = []
        """Messages to write; filled when the group is sealed."""
        self.persistent_messages: i64 = 0
        """Number of persistent messages; other messages were paged."""


class SettledRange:
    """Consecutive messages of a stored row that were settled."""

    __slots__ = ("row", "index", "count")

    def __init__(self, row: i64, place: i64) -> None:
        self.row: i64 = row
        self.index: i64 = place
        """Index of the first message."""
        self.count: i64 = 1


class QueueProgress:
    """A queue with changed progress, or with lost messages."""

    __slots__ = ("storage", "messages")

    def __init__(self, storage: JournaledQueue) -> None:
        self.storage = storage
        self.messages: i64 = 0
        """Number of the queue's stored messages with this group; counted when the group is sealed."""


class MetadataChange:
    """A declaration, a change or a deletion."""

    __slots__ = ("subject", "deleted")

    def __init__(self, subject: object, gone: bool) -> None:
        self.subject = subject
        self.deleted = gone


class SealedState:
    """An object whose state is written with a group. The group encodes it when it is closed."""

    __slots__ = ()

    def sealed(self) -> object:
        """Return the state as a durable object that does not change later."""
        raise NotImplementedError


class PageOwner:
    """The pages of one queue, as the journal sees them; `QueuePager` implements it."""

    def written(self, page: PageWrite) -> None:
        """Handle a written page: its content is dropped from memory, unless consumers need it at once."""
        raise NotImplementedError


class JournalGroup(StoredRow):
    """The unit of a store transaction; after the transaction, the row of its messages while any is left."""

    __slots__ = (
        "runs",
        "pages",
        "paged",
        "purged_pages",
        "settled",
        "returned",
        "dead",
        "progressed",
        "changes",
        "states",
        "listeners",
        "urgent",
        "settlement_records",
        "stale",
        "elsewhere",
        "bodies_gone",
        "tied",
        "moved",
    )

    def __init__(self, number: i64) -> None:
        super().__init__(number, GROUP_OPEN)
        self.runs: list[MessageRun] = []
        self.pages: list[PageWrite] = []
        """Paged messages: each page becomes a row of its own."""
        self.paged: i64 = 0
        """Charges of the paged messages."""
        self.purged_pages: list[tuple[int, int, int]] = []
        """Purged pages: number of the queue, first and last sequence."""
        self.settled: list[SettledRange] = []
        """Settled messages of other groups."""
        self.returned: set[int] = set()
        """Requeued messages of other groups, as number << INDEX_BITS | index."""
        self.dead: list[JournalGroup] = []
        """Rows without messages."""
        self.progressed: list[QueueProgress] = []
        self.changes: list[MetadataChange] = []
        self.states: list[SealedState] = []
        """Objects whose state is written with the group, encoded when the group is closed."""
        self.listeners: list[DurabilityListener] = []
        self.urgent: bool = False
        """True if the group should be written at once: a client waits, or this is the last opportunity."""
        self.settlement_records: list[SettlementRecord] = []
        """Stored settlement records about the group."""
        self.stale: list[int] = []
        """Numbers of settlement records whose rows are all deleted."""
        self.elsewhere: i64 = 0
        """Bytes of large bodies that are counted in the charges of the messages, and written as pieces."""
        self.bodies_gone: list[int] = []
        """Large bodies without any reference."""
        self.tied: bool = False
        """True if the next group must be in the same transaction."""
        self.moved: MovedMessages | None = None
        """Messages of the group that are on the disk already, elsewhere; None for none, and once it is written."""

    def pending_records(self) -> i64:
        """Return the number of settlements, requeues, changes and indexes of removed messages."""
        places: i64 = len(self.messages)
        return places - self.live + len(self.settled) + len(self.returned) + len(self.changes)

    def note_moved(self, first: i64) -> None:
        """Record that the messages from an index on are on the disk already, elsewhere."""
        if self.moved is None:
            self.moved = MovedMessages()
        self.moved.add(first, len(self.messages))

    def has_moved(self, message: StoredMessage) -> bool:
        """Return whether a message of the group is on the disk elsewhere until the group is written."""
        return self.moved is not None and self.moved.holds(message.index)

    def compact(self) -> None:
        """Reuse the indexes of removed messages, while the group is open."""
        messages, runs = self.messages, self.runs
        if self.moved is not None:
            self.moved = self.moved.without_gaps(messages)
        self.messages = []
        self.runs = []
        for at in range(len(runs)):
            start: i64 = len(self.messages)
            end: i64 = runs[at + 1].start if at + 1 < len(runs) else len(messages)
            for message in messages[runs[at].start : end]:
                if message is not None:
                    message.index = len(self.messages)
                    self.messages.append(message)
            if len(self.messages) > start:
                self.runs.append(runs[at])
                runs[at].start = start

    def record_settled(self, row: i64, place: i64) -> None:
        """Record a settled message of another group; consecutive messages share a range."""
        settled = self.settled
        if settled:
            last = settled[len(settled) - 1]
            if last.row == row and last.index + last.count == place:
                last.count += 1
                return
        settled.append(SettledRange(row, place))

    def has_row(self) -> bool:
        """Return whether a sealed group has messages to write."""
        return self.size > 0

    def is_empty(self) -> bool:
        """Return whether there are no changes to write and no listeners."""
        if self.messages or self.settled or self.returned or self.dead:
            return False
        if self.pages or self.purged_pages:
            return False
        return not (self.progressed or self.changes or self.listeners or self.stale)

    def seal(self) -> None:
        """Fix the content: fill the runs, assign final indexes, count the messages of queues."""
        self.assign_indexes()
        for run in self.runs:
            run.storage.rows += run.persistent_messages
        for page in self.pages:
            page.group.assign_indexes()
            page.storage.paged += page.persistent_messages
        for progress in self.progressed:
            progress.messages = progress.storage.has_stored()
        for each in self.states:
            self.changes.append(MetadataChange(each.sealed(), False))
        self.states = []

    def assign_indexes(self) -> None:
        """Fill the runs and assign final indexes."""
        messages = self.messages
        has_gaps = self.live != len(messages)
        if has_gaps and self.moved is not None:
            self.moved = self.moved.without_gaps(messages)
        remaining: list[StoredMessage | None] = []
        runs = self.runs
        for at in range(len(runs)):
            run = runs[at]
            end: i64 = runs[at + 1].start if at + 1 < len(runs) else len(messages)
            if not has_gaps:
                run.messages = cast("list[StoredMessage]", messages[run.start : end])
            else:
                run.messages = [each for each in messages[run.start : end] if each is not None]
                run.start = len(remaining)
                for message in run.messages:
                    message.index = len(remaining)
                    remaining.append(message)
            for message in run.messages:
                if message.envelope.persistent:
                    run.persistent_messages += 1
        if has_gaps:
            self.messages = remaining
        self.size = self.bytes
        self.state = GROUP_STATES.step(self.state, GroupState.SEALED)

    def restore(self) -> None:
        """Declare that the content was read from the store."""
        self.state = GROUP_STATES.step(self.state, GroupState.WRITTEN)

    def on_written(self) -> None:
        """Handle that the group is on disk: free all data that its remaining messages do not need."""
        self.state = GROUP_STATES.step(self.state, GroupState.WRITTEN)
        for progress in self.progressed:
            progress.storage.redelivery_mark = progress.storage.announcing
        for run in self.runs:
            run.messages = []
        pages = self.pages
        self.pages = []
        self.purged_pages = []
        for page in pages:
            for run in page.group.runs:
                run.messages = []
            page.pages.written(page)
        self.settled = []
        self.returned = set()
        self.moved = None
        self.dead = []
        self.progressed = []
        self.changes = []
        self.listeners = []
        self.stale = []
        if self.live == 0:
            self.empty()

    def empty(self) -> None:
        """Clear the group when no message is left."""
        self.messages = []
        self.runs = []

    def release(self) -> None:
        """Separate the messages from a group that was decoded and is not used, so that no reference cycle is left."""
        for message in self.messages:
            if message is not None:
                message.group = None
        self.empty()


class PageWrite:
    """A page being written to disk."""

    __slots__ = ("pages", "storage", "group", "first", "persistent_messages", "persistent_bytes", "purged")

    def __init__(self, pages: PageOwner, storage: JournaledQueue, number: i64, first: i64) -> None:
        self.pages = pages
        self.storage = storage
        self.group = JournalGroup(number)
        self.group.runs.append(MessageRun(storage, 0))
        self.first: i64 = first
        self.persistent_messages: i64 = 0
        self.persistent_bytes: i64 = 0
        """Charges of the messages in the page that survive a restart: persistent messages of a durable queue."""
        self.purged: bool = False
        """True if the page was purged."""

    def end(self) -> i64:
        """Return the sequence after the page's last message."""
        return self.first + len(self.group.messages)


class UnflushedConfirm:
    """The first publish whose confirm waits for a journal group, with that group."""

    __slots__ = ("number", "group")

    def __init__(self, number: i64, group: JournalGroup) -> None:
        self.number: i64 = number
        self.group = group


NONE_UNFLUSHED: Final[deque[UnflushedConfirm]] = deque(maxlen=0)
"""Shared empty deque of producers without persistent messages, because an empty deque takes 640 bytes."""


PIECES_DELETED: Final = 256
"""Pieces deleted with one transaction: 64 MiB."""
PIECES_MAX: Final = 1 << 24
"""Most pieces of a body, the range of the piece number in the store's key."""


class JournaledPieces:
    """Pieces on their way into the store, and out of it."""

    def __init__(self, large: LargeBodies) -> None:
        self.large = large
        self.writing: list[PieceWrite] = []
        """Pieces of the present transaction."""
        self.deleting: list[tuple[int, int, int]] = []
        """Pieces that the transaction deletes: number of the body, first and last index."""
        self._unreferenced: deque[int] = deque()
        """Bodies to delete."""
        self._next: int = 0
        """Number of pieces of the first body that are deleted."""

    def is_urgent(self) -> bool:
        """Return whether a connection waits for pieces to be written."""
        return self.large.is_urgent()

    def is_idle(self) -> bool:
        """Return whether no write or delete is pending or under way."""
        if self.writing or self.large.has_writes():
            return False
        return not (self._unreferenced or self.deleting or self.large.has_unreferenced())

    def has_work(self) -> bool:
        """Return whether the next transaction writes or deletes pieces besides the pieces of its group."""
        return self.large.has_writes() or len(self._unreferenced) > 0 or self.large.has_unreferenced()

    def delete(self, bodies: list[int]) -> None:
        """Delete bodies with the next transactions."""
        self._unreferenced.extend(bodies)

    def take(self) -> None:
        """Take the pieces of a transaction."""
        ledger = self.large.ledger
        self.writing = self.large.take_writes()
        left = PIECES_DELETED
        while self._unreferenced and left > 0:
            number = self._unreferenced[0]
            first = self._next
            pieces = (ledger.stored.get(number, 0) + PIECE_OCTETS - 1) // PIECE_OCTETS
            if pieces - first > left:
                self.deleting.append((number, first, first + left - 1))
                self._next = first + left
                return
            if pieces > first:
                self.deleting.append((number, first, PIECES_MAX - 1))
                left -= pieces - first
            self._unreferenced.popleft()
            self._next = 0
            ledger.stored.pop(number, None)

    def written(self) -> None:
        """Handle that the transaction is on the disk."""
        writes = self.writing
        self.writing = []
        self.deleting = []
        self.large.written(writes)

    def unwritten(self) -> i64:
        """Return the bytes that wait or are being written."""
        return self.large.unwritten


WHOLE_BATCH: Final = -1
"""Value of `MarkRecord.partition` for the progress of the batch itself."""


class MarkRecord:
    """A mark of one partition, or the progress of a batch, as one journal group writes it.

    A record changes only while its group is open. So the store never has a mark that is newer than the rows of its
    group.
    """

    def __init__(self, vhost: str, query: str, target: str, partition: i64) -> None:
        self.vhost = vhost
        self.query = query
        self.target = target
        self.partition: i64 = partition
        self.group: i64 = 0
        """Number of its journal group."""
        self.batch: i64 = 0
        self.run = ""
        self.write = ""
        self.user = ""
        self.partitions: i64 = 0
        """Number of partitions of the batch; -1 if unknown."""
        self.promoted = False
        """True if the batch was published as a whole."""
        self.spread = ""
        """The brokers of the batch, and how its rows are spread over them; empty for one broker."""
        self.rows: i64 = 0
        self.reached: i64 = 0
        """Number of the last row at its source; 0 if the rows have no such numbers."""
        self.checked: i64 = 0
        self.digest = ""
