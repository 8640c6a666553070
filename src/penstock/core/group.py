"""What is written together: a group of the journal, and what it consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr, trait

if TYPE_CHECKING:
    from penstock.core.journal import Journal
    from penstock.core.message import StoredMessage
    from penstock.core.pages import Page
    from penstock.core.queue import Queue


@trait
@mypyc_attr(allow_interpreted_subclasses=True)
class Awaiting:
    """Somebody who has been promised something that is true once a group is on the disk."""

    def written(self, group: Group) -> None:
        """The group is on the disk."""
        raise NotImplementedError


class Promises:
    """Counts what nobody is told of before it is on the disk: who compares finds out whether there was any."""

    __slots__ = ("made", "declared")

    def __init__(self) -> None:
        self.made: i64 = 0
        """Everything: a commit that had a part in it waits."""
        self.declared: i64 = 0
        """Declarations, deletions and purges: their -ok waits."""


class Note:
    """What has become of messages in rows, as the store has it; it goes when the rows that it is about are gone."""

    __slots__ = ("number", "rows")

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.rows: i64 = 0
        """About how many rows that are there still."""


class Kept:
    """What a queue is in the store."""

    __slots__ = (
        "journal",
        "queue",
        "number",
        "stock",
        "delivered",
        "announcing",
        "announced",
        "ahead",
        "waited",
        "waits",
        "touched",
        "lasting",
    )

    def __init__(self, journal: Journal, queue: Queue, number: i64) -> None:
        self.journal = journal
        self.queue = queue
        self.number: i64 = number
        """Its own, never reused: another queue of the same name has another."""
        self.stock = journal.disk.stock(queue.vhost)
        """What is stored for its virtual host."""
        self.delivered: i64 = 0
        """The highest sequence that was with a consumer."""
        self.announcing: i64 = 0
        self.announced: i64 = 0
        """Up to which sequence the store says so: in what is being written, and on the disk (see storing.py)."""
        self.ahead: i64 = 0
        """How much further than the truth it says so, for consumption to go on meanwhile."""
        self.waited: i64 = 0
        """The number of the last group for which a delivery had to wait."""
        self.waits: i64 = 0
        """How many deliveries in a row had to."""
        self.touched: Group | None = None
        """The last group that says how far it has come."""
        self.lasting: bool = True
        """Whether the queue outlives the broker: else only its pages are there, for as long as it is."""

    def add(self, message: StoredMessage) -> None:
        """A message that the store must keep has come in."""
        self.journal.add(self, message)
        stock = self.stock
        stock.come += message.charge
        if stock.come > stock.mark:
            stock.disk.judge(message.arrived)

    def drop(self, message: StoredMessage, now: float) -> None:
        """A message has left the queue for good."""
        if message.group is not None:
            self.journal.drop(message)
            self.stock.take(message.charge, now)

    def announce(self) -> i64:
        """Return what the store is to say now of how far consumers have come."""
        if self.delivered + self.ahead == self.announcing:
            self.ahead = 0  # Nobody has got anything since.
        self.announcing = self.delivered + self.ahead
        if self.announced > self.announcing:
            self.announced = self.announcing
        return self.announcing


class Run:
    """Messages of one queue that came one after the other."""

    __slots__ = ("kept", "start", "messages")

    def __init__(self, kept: Kept, start: i64) -> None:
        self.kept = kept
        self.start: i64 = start
        """The place of the first one."""
        self.messages: list[StoredMessage] = []
        """Those that are written; filled when the group is sealed."""


class Change:
    """Something that was declared, or has changed, or is no more."""

    __slots__ = ("thing", "gone")

    def __init__(self, thing: object, gone: bool) -> None:
        self.thing = thing
        self.gone = gone


class Group:
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
        "touched",
        "changes",
        "awaiting",
        "urgent",
        "sealed",
        "written",
        "notes",
        "stale",
        "due",
    )

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        """Of the row and of the note that come of it."""
        self.messages: list[StoredMessage | None] = []
        """By place; None where it is settled."""
        self.runs: list[Run] = []
        self.live: i64 = 0
        """Messages that are not settled."""
        self.bytes: i64 = 0
        """Their charges."""
        self.size: i64 = 0
        """Charges of all that is in it, once it is sealed."""
        self.pages: list[Page] = []
        """Messages that are on the disk only: each page becomes a row of its own."""
        self.paged: i64 = 0
        """Their charges."""
        self.pages_gone: list[tuple[int, int, int]] = []
        """Pages that were purged: the number of a queue, and first and last sequence."""
        self.settled: list[int] = []
        """Messages of other groups, as number << PLACE_BITS | place."""
        self.returned: list[StoredMessage] = []
        """Messages of other groups that came back from a consumer."""
        self.dead: list[Group] = []
        """Rows of which nothing is left."""
        self.touched: list[Kept] = []
        """Queues that have come further."""
        self.changes: list[Change] = []
        self.awaiting: list[Awaiting] = []
        self.urgent: bool = False
        """Whether it should be written at once: somebody waits, or will not be asked again."""
        self.sealed: bool = False
        """Whether what is in it is settled; what leaves from now on leaves with a later one."""
        self.written: bool = False
        self.notes: list[Note] = []
        """What the store has notes about it in."""
        self.stale: list[int] = []
        """Numbers of notes that are about no row any more."""
        self.due: i64 = 0
        """The number of the group with which what is left of it moves, if it is sparse; 0: it is not."""

    def has_row(self) -> bool:
        """Tell whether a sealed group has messages to be written."""
        return self.size > 0

    def is_empty(self) -> bool:
        """Tell whether there is nothing to write and nobody waits."""
        if self.messages or self.settled or self.returned or self.dead:
            return False
        if self.pages or self.pages_gone:
            return False
        return not (self.touched or self.changes or self.awaiting or self.stale)

    def seal(self) -> None:
        """Nothing more comes in: fill the runs, give the messages their places for good."""
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
                    message.place = len(kept)
                    kept.append(message)
                    run.messages.append(message)
                place += 1
        self.messages = kept
        self.size = self.bytes
        self.sealed = True
        for page in self.pages:
            page.group.seal()

    def is_written(self) -> None:
        """It is on the disk: only what is needed for what is left in it stays."""
        self.written = True
        for kept in self.touched:
            kept.announced = kept.announcing
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
        self.returned = []
        self.dead = []
        self.touched = []
        self.changes = []
        self.awaiting = []
        self.stale = []
        if self.live == 0:
            self.empty()

    def empty(self) -> None:
        """Nothing of it is left."""
        self.messages = []
        self.runs = []
