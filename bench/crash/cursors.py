"""Queues that are read by cursors (Penstock only): what is settled stays settled, and no offset is ever used twice."""

from __future__ import annotations

import json
import random
import struct
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, Self
from urllib.parse import quote

from bench.crash.history import Copy, History, Settlement, now
from bench.crash.judge import Found, Verdict
from bench.crash.parties import Party
from bench.crash.wire import PATIENCE_S, Address
from penstock import sync
from penstock.client.errors import ClientError, ControlError
from penstock.sync import connect

MOST_ROWS, MOST_OCTETS = 500, 16 << 20
"""Of one block."""
WAIT_MS = 50
"""How long the broker waits for messages to plan, in ms, before it says that there are none."""


class Row(NamedTuple):
    """One row of a block."""

    offset: int
    name: str
    body: bytes


def rows_of(block: memoryview) -> list[Row]:
    """Read what is needed of a block (docs/spark.md describes the format)."""
    head = json.loads(bytes(block[8 : 8 + int.from_bytes(block[4:8], "little")]))
    count, columns = head["rows"], head["columns"]

    def buffer(column: str, part: str) -> memoryview:
        start, length = columns[column][part]
        return block[start : start + length]

    def pieces(column: str) -> list[bytes]:
        if "all" in columns[column]:
            return [str(columns[column]["all"]).encode()] * count
        ends = struct.unpack(f"<{count + 1}i", buffer(column, "offsets"))
        data = buffer(column, "data")
        return [bytes(data[start:end]) for start, end in pairwise(ends)]

    if not count:
        return []
    offsets = struct.unpack(f"<{count}q", buffer("sequence", "data"))
    names = [name.decode() for name in pieces("message_id")]
    return [Row(*row) for row in zip(offsets, names, pieces("value"), strict=True)]


class Cursor:
    """What is known of a cursor."""

    def __init__(self, queue: str, pages: bool = False) -> None:
        self.queue = queue
        """The one that it reads."""
        self.pages = pages
        """Whether that pages: then only as much of it can be planned as fits into its memory."""
        self.name = f"crash.{queue}"
        self.settled = 0
        """The offset up to which it was surely settled: cursor.settle was answered."""
        self.asked = 0
        """The offset up to which settling was asked for."""
        self.offsets: dict[str, int] = {}
        """Where each message was seen, by its name."""
        self.tails: list[int] = []
        self._seen_at: list[int] = []
        """The highest offset that there was, rising, and when each was told; in ns."""

    def saw_tail(self, tail: int) -> None:
        """The broker has told the highest offset that it has given to a message."""
        if not self.tails or tail > self.tails[-1]:
            self.tails.append(tail)
            self._seen_at.append(now())

    def saw(self, row: Row, copy: Copy, history: History) -> None:
        """A message has been read."""
        before = self.offsets.setdefault(row.name, row.offset)
        if before != row.offset:
            history.blame("offset", f"{row.name} was read at {before} of {self.queue}, and now is at {row.offset}")
        index = bisect_left(self._seen_at, copy.sent)
        if index and row.offset <= self.tails[index - 1]:
            used = self.tails[index - 1]
            history.blame(
                "offset", f"{row.name} is at {row.offset} of {self.queue}, and {used} was in use before it was sent"
            )

    def settle(self, control: sync.Connection, token: int, end: int, copies: list[Copy], history: History) -> None:
        """Settle messages that were read, up to an offset."""
        settlements = []
        for copy in copies:
            copy.settlement = Settlement(self.queue)
            settlements.append(copy.settlement)
        self.asked = max(self.asked, end)
        control.settle_cursor(self.name, token, {self.queue: end})
        self.settled = max(self.settled, end)
        for settlement in settlements:
            settlement.sure = True
        history.answered("settled")

    def forget_settled(self) -> None:
        """Let go of what is known of messages that are settled."""
        self.offsets = {name: offset for name, offset in self.offsets.items() if offset > self.settled}
        del self.tails[:-1], self._seen_at[:-1]


class Reader(Party):
    """Reads batch after batch through the cursor and settles what it has read."""

    def __init__(self, name: str, address: Address, history: History, chance: random.Random, cursor: Cursor) -> None:
        super().__init__(name, address, history, chance)
        self.cursor = cursor

    def act(self) -> None:
        try:
            with connect(url_of(self.address), protocol="amqp091", reconnect=False) as control:
                self._read(control)
        except ControlError as refused:
            self.history.blame("refused", f"{self.name} {type(self).__name__}: {refused}")
        except ClientError:
            return  # the broker is gone

    def _read(self, control: sync.Connection) -> None:
        cursor = self.cursor
        name, queue = cursor.name, cursor.queue
        attached = control.attach_cursor(name, [queue])
        start, copies = attached.settled[queue], []
        while True:
            plan = control.plan_batch(name, attached.token, {queue: start}, rows=self.chance.randint(1, MOST_ROWS),
                                bytes=MOST_OCTETS, wait=0.05)  # fmt: skip
            cursor.saw_tail(plan.tail[queue])
            for row in read_range(control, cursor, attached.token, start, plan.end[queue]):
                copy = self.history.delivered(queue, row.name, True, row.body)
                if copy is not None:
                    cursor.saw(row, copy, self.history)
                    copies.append(copy)
            start = plan.end[queue]
            if copies and self.chance.random() < 0.7:
                cursor.settle(control, attached.token, start, copies, self.history)
                copies = []


def url_of(address: Address) -> str:
    """Return the URL of the broker."""
    return f"amqp://guest:guest@127.0.0.1:{address.port}/{quote(address.vhost, safe='')}"


def read_range(control: sync.Connection, cursor: Cursor, token: int, start: int, end: int) -> Iterator[Row]:
    """Read all of (start, end], block by block."""
    while start < end:
        block = control.read_range(cursor.name, token, cursor.queue, start, end, rows=MOST_ROWS, bytes=MOST_OCTETS)
        rows = rows_of(block)
        if not rows:
            return
        yield from rows
        start = rows[-1].offset


class CursorWitness:
    """Looks at the queues through their cursors after a restart."""

    def __init__(self, address: Address, history: History, cursors: Iterable[Cursor]) -> None:
        self._control = connect(url_of(address), protocol="amqp091", reconnect=False)
        self._history = history
        self._cursors = list(cursors)
        self._tokens: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        """Up to which offset each queue was read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._control.close()

    def create(self) -> None:
        """Make the cursors."""
        for cursor in self._cursors:
            self._control.attach_cursor(cursor.name, [cursor.queue])

    def paged(self) -> int:
        """Return how many messages are on the disk only, in all queues."""
        return sum(queue["messages_paged_out"] for queue in self._control.list("queues"))

    def take(self) -> list[Found]:
        """Return all that is not settled."""
        return [found for cursor in self._cursors for found in self._take(cursor)]

    def _take(self, cursor: Cursor) -> list[Found]:
        control, queue, found = self._control, cursor.queue, list[Found]()
        try:
            attached = control.attach_cursor(cursor.name, [queue])
        except ControlError as refused:
            self._history.blame("missing", f"cursor {cursor.name}: {refused}")
            return found
        token, settled = attached.token, attached.settled[queue]
        self._tokens[queue] = token
        if attached.created:
            self._history.blame("missing", f"cursor {cursor.name} is not there, but its creation was answered")
        elif not cursor.settled <= settled <= cursor.asked:
            asked = f"it was surely settled to {cursor.settled}, and at most {cursor.asked} was asked for"
            self._history.blame("offset", f"cursor {cursor.name} is settled to {settled}: {asked}")
        cursor.settled = cursor.asked = settled
        self._read(cursor, found)
        deadline = time.monotonic() + PATIENCE_S
        while cursor.pages and self._depth(queue):  # what was read makes room for what comes from the disk
            if time.monotonic() > deadline:
                raise TimeoutError(f"{queue} still has messages that cannot be planned after {PATIENCE_S:g} s")
            cursor.settled = cursor.asked = control.settle_cursor(cursor.name, token, {queue: self._ends[queue]})[queue]
            self._read(cursor, found)
        return found

    def _read(self, cursor: Cursor, found: list[Found]) -> None:
        """Read on from where it was read to before."""
        queue, token = cursor.queue, self._tokens[cursor.queue]
        start = self._ends.get(queue, cursor.settled)
        plan = self._control.plan_batch(
            cursor.name, token, {queue: start}, wait=WAIT_MS / 1000 if cursor.pages else 0.0
        )
        for row in read_range(self._control, cursor, token, start, plan.end[queue]):
            copy = self._history.copies.get((queue, row.name))
            if copy is not None:
                cursor.saw(row, copy, self._history)
            # A block tells neither the mark of a redelivery nor the delivery mode.
            found.append(Found(queue, row.name, True, row.body, None, True, now()))
        self._ends[queue] = plan.end[queue]
        cursor.saw_tail(plan.tail[queue])

    def _depth(self, queue: str) -> int:
        return next(int(each["messages"]) for each in self._control.list("queues") if each["name"] == queue)

    def settle(self, verdict: Verdict, chance: random.Random) -> None:
        """Settle some of what was found."""
        for cursor in self._cursors:
            copies = [copy for copy, one in verdict.kept if one.queue == cursor.queue]
            share = chance.choice((0.0, 0.5, 1.0, 1.0))
            if not cursor.pages:  # else it was settled as it was read
                copies = copies[: int(len(copies) * share)]
            if copies:
                end = cursor.offsets[copies[-1].name]
                cursor.settle(self._control, self._tokens[cursor.queue], end, copies, self._history)
            cursor.forget_settled()
