"""What the clients did and were told: the broker is judged by nothing else.

All times are `time.monotonic_ns()` of the one process in which all clients run: taken before something is sent, and
after its answer has been read. So of two intervals that do not overlap the broker has done the first one first.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from bench.crash.promises import Promises

_CONTENT = random.Random(5).randbytes(1 << 19)
LARGEST = 200 * 1024
"""Octets of the largest body."""


ANSWERS = ("confirmation", "commit", "wipe", "declaration", "settled")
"""The answers that wait for the disk."""


def now() -> int:
    """Return the time in ns."""
    return time.monotonic_ns()


def body_of(name: str, size: int) -> bytes:
    """Return the body of a message: another one for each, and never kept."""
    start = zlib.crc32(name.encode()) % (len(_CONTENT) - LARGEST)
    return _CONTENT[start : start + size]


class Violation(NamedTuple):
    """A promise that was broken."""

    kind: str
    text: str


class Fate(Enum):
    """What became of a transaction, as far as its client knows."""

    OPEN = "not committed"
    """tx.commit was never sent, so nothing of it may be seen."""
    SENT = "in doubt"
    """tx.commit was sent and not answered: all of it, or nothing."""
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


@dataclass(eq=False)
class Transaction:
    """Publishes and acknowledgements that count together."""

    name: str
    fate: Fate = Fate.OPEN
    published: list[Copy] = field(default_factory=list)
    settled: list[Copy] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Settlement:
    """A consumer has done with a delivery.

    It is *sure* when a later answer on the same connection, one that had to wait for the disk itself, has come: the
    confirmation of a persistent message that was published after it, or tx.commit-ok. Until then it is in doubt.
    """

    queue: str
    rejected: bool = False
    """Without asking for another delivery: a dead letter, where the queue has a place for those."""
    sure: bool = False
    transaction: Transaction | None = None

    def stands(self) -> bool:
        """Tell whether it may have taken effect."""
        return self.transaction is None or self.transaction.fate in (Fate.SENT, Fate.COMMITTED)


@dataclass(eq=False, slots=True)
class Copy:
    """One message in one queue, from its publish to its end."""

    name: str
    """Its message-id: round.party.number."""
    publisher: str
    """Those of one publisher in one queue keep their order."""
    number: int
    places: tuple[str, ...]
    """Its queue, and where it may go from there as a dead letter."""
    size: int
    persistent: bool = True
    headers: bool = False
    """Whether its number is in its headers too."""
    sent: int = 0
    taken: int = 0
    """When the broker was known to have it: confirmed, committed or seen after a restart; 0: never."""
    place: int = 0
    """Before which others of its publisher it stands: its number, or as a dead letter when it was first seen there."""
    lifetime: int = 0
    """ns after which it expires, counted from when it came into its first place; 0: never."""
    group: str = ""
    """Its message group; empty: none."""
    due: int = 0
    """When it may be given out at the earliest; 0: at once."""
    delivered: str = ""
    """The place where some client has had it last."""
    settlement: Settlement | None = None
    transaction: Transaction | None = None
    """The one in which it was published, until a restart has shown what became of it."""

    def __post_init__(self) -> None:
        self.place = self.place or self.number

    def body(self) -> bytes:
        """Return what its body must be."""
        return body_of(self.name, self.size)


@dataclass(eq=False, slots=True)
class Wipe:
    """A purge, or a deletion up to the queue's next declaration: takes all that is in a queue that has no consumers."""

    queue: str
    begun: int
    answered: bool = False
    """The purge-ok or delete-ok has come."""
    ended: int = 0
    """When the queue was known to be there and to take messages again; 0: not yet."""


@dataclass(eq=False, slots=True)
class Thing:
    """Something declared: ("queue", name), ("exchange", name) or ("binding", exchange, queue, key)."""

    key: tuple[str, ...]
    there: bool
    """After the last change that was answered, or what the one in doubt would make of it."""
    doubtful: bool = True
    """The last change was sent and not answered."""
    arguments: dict[str, object] = field(default_factory=dict)


class History:
    """All that there may be in the broker, and what was seen to be wrong while clients were at work."""

    def __init__(self, promises: Promises) -> None:
        self.promises = promises
        self.copies: dict[tuple[str, str], Copy] = {}
        """By queue and message-id, under each of a copy's places."""
        self.wipes: list[Wipe] = []
        self.moves: list[tuple[str, int]] = []
        """Moves of whole queues that were answered: the queue, and when it was asked for."""
        self.transactions: list[Transaction] = []
        self.things: dict[tuple[str, ...], Thing] = {}
        self.violations: list[Violation] = []
        self.confirmed = 0
        self.deliveries = 0
        self.transferred = 0
        """Messages that were moved or redriven by jobs that were answered."""
        self.over = False
        """True when clients that connect are to leave: the broker is being killed, and may come back at once."""
        self.waiting: tuple[str, Callable[[], None]] | None = None
        """Whom to call at once when an answer of this kind has been read: one of `ANSWERS`."""

    def answered(self, kind: str) -> None:
        """An answer that had to wait for the disk has been read, and noted."""
        waiting = self.waiting
        if waiting is not None and waiting[0] == kind:
            waiting[1]()

    def add(self, copies: Iterable[Copy]) -> None:
        """Note messages before they are sent."""
        for copy in copies:
            for place in copy.places:
                self.copies[place, copy.name] = copy

    def blame(self, kind: str, text: str) -> None:
        """Note a promise that was broken."""
        self.violations.append(Violation(kind, text))

    def confirm(self, copies: Iterable[Copy], positive: bool) -> None:
        """Note what the broker said of a message, in each of its queues."""
        at = now()
        for copy in copies:
            if positive:
                copy.taken = at
        self.confirmed += positive
        self.answered("confirmation")

    def committed(self, transaction: Transaction) -> None:
        """tx.commit-ok has come."""
        transaction.fate = Fate.COMMITTED
        at = now()
        for copy in transaction.published:
            copy.taken = at
        self.assure((copy.settlement for copy in transaction.settled if copy.settlement is not None), None)
        self.answered("commit")

    def assure(self, settlements: Iterable[Settlement], queue: str | None) -> None:
        """An answer has come that waited for the disk: for `queue`, or None, the commit of a transaction."""
        for settlement in settlements:
            settlement.sure = settlement.sure or self.promises.settled_across_queues or settlement.queue == queue

    def delivered(self, queue: str, name: str | None, redelivered: bool, body: bytes) -> Copy | None:
        """Note that a client has got a message while the broker runs; None if it should not exist."""
        self.deliveries += 1
        copy = self.copies.get((queue, name or ""))
        if copy is None:
            self.blame("invented", f"{queue} delivered {name!r}, which is not in it")
            return None
        if body != copy.body():
            self.blame("altered", f"{name} from {queue}: {len(body)} octets that are not the {copy.size} of its body")
        if copy.transaction is not None and copy.transaction.fate in (Fate.OPEN, Fate.ROLLED_BACK):
            fate = copy.transaction.fate.value
            self.blame("half transaction", f"{queue} delivered {name} of {copy.transaction.name}, which is {fate}")
        settlement = copy.settlement
        if settlement is not None and settlement.sure and settlement.queue == queue:
            self.blame("acknowledged back", f"{queue} delivered {name}, whose acknowledgement was surely taken")
        if copy.delivered == queue and not redelivered and self.promises.marks:
            self.blame("unmarked", f"{queue} delivered {name} again and did not say that it was redelivered")
        copy.delivered = queue
        copy.settlement = None
        return copy

    def change(self, *key: str, there: bool, arguments: dict[str, object] | None = None) -> Thing:
        """Note that something is about to be declared or deleted."""
        thing = self.things.setdefault(key, Thing(key, there))
        thing.there, thing.doubtful = there, True
        if arguments is not None:
            thing.arguments = arguments
        return thing
