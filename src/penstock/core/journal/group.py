"""What is written together: a group of the journal, and what it consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr, trait

from penstock.core.message import Message, StoredMessage

if TYPE_CHECKING:
    from penstock.core.journal.journal import Journal
    from penstock.core.queue.page_io import PageWrite
    from penstock.core.queue.queue import Queue


@trait
@mypyc_attr(allow_interpreted_subclasses=True)
class DurabilityListener:
    """Somebody who has been promised something that is true once a group is on the disk."""

    def on_durable(self, group: JournalGroup) -> None:
        """The group is on the disk."""
        raise NotImplementedError


class DurableChanges:
    """Counts what nobody is told of before it is on the disk: who compares finds out whether there was any."""

    __slots__ = ("durable_ops", "durable_declarations")

    def __init__(self) -> None:
        self.durable_ops: i64 = 0
        """Everything: a commit that had a part in it waits."""
        self.durable_declarations: i64 = 0
        """Declarations, deletions and purges: their -ok waits."""


class SettlementRecord:
    """What has become of messages in rows, as the store has it; it goes when the rows that it is about are gone."""

    __slots__ = ("number", "rows")

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.rows: i64 = 0
        """About how many rows that are there still."""


class QueueStorage:
    """What a queue is in the store."""

    __slots__ = (
        "journal",
        "queue",
        "number",
        "vhost_usage",
        "delivered",
        "announcing",
        "redelivery_mark",
        "lookahead",
        "waited",
        "waits",
        "progress_marked",
        "lasting",
        "rows",
    )

    def __init__(self, journal: Journal, queue: Queue, number: i64) -> None:
        self.journal = journal
        self.queue = queue
        self.number: i64 = number
        """Its own, never reused: another queue of the same name has another."""
        self.vhost_usage = journal.disk.vhost_usage(queue.vhost)
        """What is stored for its virtual host."""
        self.delivered: i64 = 0
        """The highest sequence that was with a consumer."""
        self.announcing: i64 = 0
        self.redelivery_mark: i64 = 0
        """Up to which sequence the store says so: in what is being written, and on the disk (see storing.py)."""
        self.lookahead: i64 = 0
        """How much further than the truth it says so, for consumption to go on meanwhile."""
        self.waited: i64 = 0
        """The number of the last group for which a delivery had to wait."""
        self.waits: i64 = 0
        """How many deliveries in a row had to."""
        self.progress_marked: JournalGroup | None = None
        """The last group that says how far it has come."""
        self.lasting: bool = True
        """Whether the queue outlives the broker: else only its pages are there, for as long as it is."""
        self.rows: i64 = 0
        """Its persistent messages in rows, less those that were settled; what is in the open group does not count."""

    def has_stored(self) -> i64:
        """Return how many of its messages are in the store when all that is settled now is written, and no more."""
        pages = self.queue.pager
        return self.rows if pages is None else self.rows + pages.lasting

    def take_in(self, messages: list[StoredMessage]) -> i64:
        """A page has come into memory as a row; returns how many of its messages are persistent."""
        lasting: i64 = 0
        for message in messages:
            if message.redeliveries == 0 and message.sequence <= self.delivered:
                message.redeliveries = 1
            if message.envelope.persistent:
                lasting += 1
        self.rows += lasting
        return lasting

    def add(self, message: StoredMessage) -> None:
        """A message that the store must keep has come in."""
        self.journal.add(self, message)
        stock = self.vhost_usage
        stock.bytes_in += message.charge
        if stock.bytes_in > stock.recheck_at:
            stock.disk.judge(message.arrived)

    def forget(self, messages: list[Message | None], now: float) -> None:
        """Messages have left the queue for good."""
        journal = self.journal
        gone: i64 = 0
        for message in messages:
            if isinstance(message, StoredMessage) and message.group is not None:
                journal.drop(self, message)
                gone += message.charge
        if gone > 0:
            self.vhost_usage.take(gone, now)

    def announce(self) -> i64:
        """Return what the store is to say now of how far consumers have come."""
        if self.delivered + self.lookahead == self.announcing:
            self.lookahead = 0  # Nobody has got anything since.
        self.announcing = self.delivered + self.lookahead
        if self.redelivery_mark > self.announcing:
            self.redelivery_mark = self.announcing
        return self.announcing


class MessageRun:
    """Messages of one queue that came one after the other."""

    __slots__ = ("kept", "start", "messages", "lasting")

    def __init__(self, kept: QueueStorage, start: i64) -> None:
        self.kept = kept
        self.start: i64 = start
        """The place of the first one."""
        self.messages: list[StoredMessage] = []
        """Those that are written; filled when the group is sealed."""
        self.lasting: i64 = 0
        """How many of them are persistent; the others are there because they were paged."""


class SettledRange:
    """Messages of a row that the store has, one after the other, that were settled."""

    __slots__ = ("row", "index", "count")

    def __init__(self, row: i64, place: i64) -> None:
        self.row: i64 = row
        self.index: i64 = place
        """Of the first one."""
        self.count: i64 = 1


class MetadataChange:
    """Something that was declared, or has changed, or is no more."""

    __slots__ = ("subject", "gone")

    def __init__(self, thing: object, gone: bool) -> None:
        self.subject = thing
        self.gone = gone


class JournalGroup:
    """What is written together; then, while any of its messages is left, the row that holds them."""

    __slots__ = (
        "number",
        "messages",
        "runs",
        "live",
        "bytes",
        "size",
        "pages",
        "paged",
        "pages_gone",
        "settled",
        "returned",
        "dead",
        "progressed",
        "stored",
        "changes",
        "listeners",
        "urgent",
        "sealed",
        "written",
        "settlement_records",
        "stale",
        "compact_at",
    )

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        """Of the row and of the note that come of it."""
        self.messages: list[StoredMessage | None] = []
        """By place; None where it is settled."""
        self.runs: list[MessageRun] = []
        self.live: i64 = 0
        """Messages that are not settled."""
        self.bytes: i64 = 0
        """Their charges."""
        self.size: i64 = 0
        """Charges of all that is in it, once it is sealed."""
        self.pages: list[PageWrite] = []
        """Messages that are on the disk only: each page becomes a row of its own."""
        self.paged: i64 = 0
        """Their charges."""
        self.pages_gone: list[tuple[int, int, int]] = []
        """Pages that were purged: the number of a queue, and first and last sequence."""
        self.settled: list[SettledRange] = []
        """Messages of other groups."""
        self.returned: set[int] = set()
        """Messages of other groups that came back from a consumer, as number << PLACE_BITS | place."""
        self.dead: list[JournalGroup] = []
        """Rows of which nothing is left."""
        self.progressed: list[QueueStorage] = []
        """Queues that have come further, or have lost messages."""
        self.stored: list[int] = []
        """How many messages each of these has in the store with this group; filled when it is sealed."""
        self.changes: list[MetadataChange] = []
        self.listeners: list[DurabilityListener] = []
        self.urgent: bool = False
        """Whether it should be written at once: somebody waits, or will not be asked again."""
        self.sealed: bool = False
        """Whether what is in it is settled; what leaves from now on leaves with a later one."""
        self.written: bool = False
        self.settlement_records: list[SettlementRecord] = []
        """What the store has notes about it in."""
        self.stale: list[int] = []
        """Numbers of notes that are about no row any more."""
        self.compact_at: i64 = 0
        """The number of the group with which what is left of it moves, if it is sparse; 0: it is not."""

    def pending_records(self) -> i64:
        """Return how many settlements, returns and changes are in it, and places of messages that have left."""
        places: i64 = len(self.messages)
        return places - self.live + len(self.settled) + len(self.returned) + len(self.changes)

    def compact(self) -> None:
        """Give its messages, while more may come, the places of those that have left."""
        messages, runs = self.messages, self.runs
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
        """A message of another group was settled; those that come in their order take no more room than one."""
        settled = self.settled
        if settled:
            last = settled[len(settled) - 1]
            if last.row == row and last.index + last.count == place:
                last.count += 1
                return
        settled.append(SettledRange(row, place))

    def has_row(self) -> bool:
        """Tell whether a sealed group has messages to be written."""
        return self.size > 0

    def is_empty(self) -> bool:
        """Tell whether there is nothing to write and nobody waits."""
        if self.messages or self.settled or self.returned or self.dead:
            return False
        if self.pages or self.pages_gone:
            return False
        return not (self.progressed or self.changes or self.listeners or self.stale)

    def seal(self) -> None:
        """Nothing more comes in: fill the runs, give the messages their places for good, count what queues have."""
        self.settle_places()
        for run in self.runs:
            run.kept.rows += run.lasting
        for page in self.pages:
            page.group.settle_places()
            page.pages.lasting += page.lasting
        for kept in self.progressed:
            self.stored.append(int(kept.has_stored()))

    def settle_places(self) -> None:
        """Fill the runs, give the messages their places for good."""
        kept: list[StoredMessage | None] = []
        runs = self.runs
        for at in range(len(runs)):
            run = runs[at]
            end: i64 = runs[at + 1].start if at + 1 < len(runs) else len(self.messages)
            place = run.start
            run.start = len(kept)
            while place < end:
                message = self.messages[place]
                if message is not None:
                    message.index = len(kept)
                    kept.append(message)
                    run.messages.append(message)
                    if message.envelope.persistent:
                        run.lasting += 1
                place += 1
        self.messages = kept
        self.size = self.bytes
        self.sealed = True

    def on_written(self) -> None:
        """It is on the disk: only what is needed for what is left in it stays."""
        self.written = True
        for kept in self.progressed:
            kept.redelivery_mark = kept.announcing
        for run in self.runs:
            run.messages = []
        pages = self.pages
        self.pages = []
        self.pages_gone = []
        for page in pages:
            for run in page.group.runs:
                run.messages = []
            page.pages.written(page)
        self.settled = []
        self.returned = set()
        self.dead = []
        self.progressed = []
        self.stored = []
        self.changes = []
        self.listeners = []
        self.stale = []
        if self.live == 0:
            self.empty()

    def empty(self) -> None:
        """Nothing of it is left."""
        self.messages = []
        self.runs = []
