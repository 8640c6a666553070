"""Bodies of large messages, which arrive, stay and leave in pieces and are never joined.

Theory of operation. A `LargeArrival` cuts input into pieces of `PIECE_OCTETS`. Without a store its `LargeBody` holds
the pieces in memory. With a store, each complete piece of a persistent message is a `PieceWrite`, and leaves the memory
when it is written. The next store transaction takes the pieces of complete bodies. Pieces of a body that still arrives
are taken only if a connection waits for room. So a message that is consumed before the store was ready is never
written. All pieces of a body are recorded before the message that refers to it. Unwritten pieces are bounded for each
connection (`PieceBudget`) and for the node.

Pieces of other messages are *deferred*: they stay in memory, and become writes when there are too many, the oldest
first, or when their message is paged. Most are consumed earlier, and never written. Written pieces stay in memory too
while deferred pieces leave room: a consumer that keeps up does not read them back.

A `LargeReader` takes bytes of a body in order. A piece that is only in the store becomes a `PieceRead`; the listener is
notified after the read. The next piece is read ahead, so a reader holds two at most.

A body lives while a `LargeBody` with its number exists. The end of the last `LargeBody` only records the number; the
next store transaction deletes the pieces.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeAlias

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from penstock.core.body_ledger import BodyLedger

Parts: TypeAlias = list[bytes | memoryview]
"""Consecutive bytes of an output that are never joined."""
PIECE_OCTETS: Final = 262144
"""Bytes of a piece, except the last piece of a body."""
UNWRITTEN_OF_A_CONNECTION: Final = 4194304
"""Bytes of complete pieces of a connection that may wait for the store: sixteen pieces."""
UNWRITTEN_OF_THE_NODE: Final = 67108864
"""The same for all connections."""
IN_MEMORY_OF_THE_NODE: Final = 134217728
"""Bytes of deferred pieces, and of written pieces in memory. The bound of the memory of messages counts all pieces."""
PART_OCTETS: Final = 16384
"""Bytes from which on data is sent as a part of its own, without a copy."""
TAIL_PARTS: Final = 64
"""Parts of an incomplete piece; more are joined, because a part of one byte takes 34 bytes."""


class Span:
    """Consecutive bytes of a body that are data; bytes between spans are encoding of the publisher's protocol."""

    __slots__ = ("start", "octets")

    def __init__(self, start: i64, octets: i64) -> None:
        self.start: i64 = start
        self.octets: i64 = octets


class LargeBody:
    """The body of a large message, or a handle of a body in the store."""

    __slots__ = ("number", "octets", "spans", "pieces", "ledger")

    def __init__(self, number: i64, ledger: BodyLedger | None) -> None:
        self.number: i64 = number
        """Number of the body: 1, 2, 3 ..., never reused in one store."""
        self.octets: i64 = 0
        """All bytes, encoding of the publisher's protocol included."""
        self.spans: list[Span] = []
        """Spans of the data in the body, in order."""
        self.pieces: dict[int, bytes] = {}
        """Pieces in memory, by index."""
        self.ledger = ledger
        """Ledger of bodies in the store; None without a store."""
        if ledger is not None:
            ledger.add(int(number))

    def __del__(self) -> None:
        if self.ledger is not None:
            self.ledger.ended.append(int(self.number))

    def data_octets(self) -> i64:
        """Return the bytes of data."""
        return sum([span.octets for span in self.spans])

    def piece_count(self) -> i64:
        """Return the number of pieces."""
        return (self.octets + PIECE_OCTETS - 1) // PIECE_OCTETS

    def is_in_memory(self) -> bool:
        """Return whether all pieces are in memory."""
        return len(self.pieces) == self.piece_count()

    def open(self, bodies: LargeBodies, spans: list[Span], listener: PieceListener) -> LargeReader:
        """Return a reader of these spans."""
        return LargeReader(bodies, self, spans, listener)


@mypyc_attr(allow_interpreted_subclasses=True)
class PieceListener:
    """A listener for the reads of pieces."""

    def on_piece(self, reader: LargeReader) -> None:
        """Continue with a reader: its next piece is in memory, or the read failed (`LargeReader.fault`)."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class RoomListener:
    """A listener for room in the budget of a connection."""

    def on_room(self) -> None:
        """Read on, because pieces were written."""
        raise NotImplementedError

    def on_disk_changed(self) -> None:
        """Check the gates of the disk again: one has closed or opened."""

    def end(self) -> None:
        """Stop waiting: the connection has ended."""


class PieceBudget:
    """Unwritten pieces of one connection."""

    __slots__ = ("unwritten", "listener", "waiting", "arrived", "expected", "_bodies")

    def __init__(self, bodies: LargeBodies, listener: RoomListener | None) -> None:
        self.unwritten: i64 = 0
        """Bytes of the unwritten pieces."""
        self.listener = listener
        """Listener of the connection; None after its end."""
        self.waiting: bool = False
        """True while the listener waits for room."""
        self.arrived: i64 = 0
        """Bytes of large bodies in the present or last input."""
        self.expected: i64 = 0
        """Bytes of a large body that follow the present input: the socket may be read in larger steps."""
        self._bodies = bodies

    def begin_input(self) -> None:
        """Begin to count in the next input."""
        self.arrived = self.expected = 0

    def expect(self, octets: i64) -> None:
        """Record that so many bytes of a large body follow the input."""
        self.expected = octets

    def is_full(self) -> bool:
        """Return whether no more input may be read; the listener is then notified once there is room."""
        bodies = self._bodies
        if self.unwritten < UNWRITTEN_OF_A_CONNECTION and bodies.has_room():
            return False
        bodies.review_ended()
        if self.unwritten < UNWRITTEN_OF_A_CONNECTION and bodies.has_room():
            return False
        if not self.waiting:
            self.waiting = True
            bodies.crowded.append(self)
        return True

    def has_room(self) -> bool:
        """Return whether input may be read again: half of the bound is free."""
        bodies = self._bodies
        return self.unwritten * 2 <= UNWRITTEN_OF_A_CONNECTION and bodies.has_room()


class PieceRun:
    """Consecutive pieces of one body: deferred pieces, or written pieces that are still in memory."""

    __slots__ = ("pieces", "first", "end")

    def __init__(self, pieces: dict[int, bytes], first: i64) -> None:
        self.pieces = pieces
        """Pieces of the body by index."""
        self.first: i64 = first
        """Index of the first piece."""
        self.end: i64 = first
        """Index after the last piece."""

    def octets(self) -> i64:
        """Return the bytes of the pieces."""
        return sum([len(self.pieces[index]) for index in range(self.first, self.end)])


def _extend(runs: OrderedDict[int, PieceRun], body: i64, pieces: dict[int, bytes], index: i64) -> None:
    """Add a piece of a body to its run."""
    number = int(body)
    if number not in runs:
        runs[number] = PieceRun(pieces, index)
    runs[number].end = index + 1


class PieceWrite:
    """A complete piece to write. The object does not keep its body alive."""

    __slots__ = ("number", "pieces", "index", "octets", "budget")

    def __init__(self, number: i64, pieces: dict[int, bytes], index: i64, octets: bytes, budget: PieceBudget) -> None:
        self.number: i64 = number
        """Number of the body."""
        self.pieces = pieces
        """Pieces of the body that are in memory."""
        self.index: i64 = index
        self.octets = octets
        self.budget = budget


class PieceRead:
    """A piece to be read from the store."""

    __slots__ = ("reader", "number", "index")

    def __init__(self, reader: LargeReader, number: i64, index: i64) -> None:
        self.reader = reader
        self.number: i64 = number
        """Number of the body."""
        self.index: i64 = index

    def on_read(self, octets: bytes | None, fault: str = "") -> None:
        """Handle the end of the read; `octets` is None if it failed, for the reason `fault`."""
        self.reader.on_read(self, octets, fault)


class LargeBodies:
    """The large bodies of one broker, and their writes, reads and deletions in the store."""

    def __init__(self) -> None:
        self.stores: bool = False
        """True if pieces go to the store."""
        self.disk_short: bool = False
        """True while the disk has no room for more pieces: a quota or the free space is used up."""
        self.in_memory_max: i64 = IN_MEMORY_OF_THE_NODE
        """Most bytes of deferred and of cached pieces."""
        self.next_number: i64 = 1
        self.ledger = BodyLedger()
        self.writes: list[PieceWrite] = []
        """Pieces that wait to be written, in order."""
        self._arriving: dict[int, None] = {}
        """Numbers of incomplete bodies of persistent messages, whose pieces wait for the rest."""
        self.unwritten: i64 = 0
        """Bytes of pieces that wait to be written or are being written."""
        self.recorded: i64 = 0
        """Bytes of all pieces that were ever queued to be written."""
        self.reads: list[PieceRead] = []
        """Pieces that readers wait for."""
        self.crowded: list[PieceBudget] = []
        """Budgets whose connection waits for room."""
        self.deferred: i64 = 0
        """Bytes of deferred pieces, also of bodies that have ended since the last review."""
        self._deferred: OrderedDict[int, PieceRun] = OrderedDict()
        """Deferred pieces by the number of their body, the oldest first."""
        self._cached: OrderedDict[int, PieceRun] = OrderedDict()
        """Written pieces that are still in memory, by the number of their body, the oldest first."""
        self.cached: i64 = 0
        """Bytes of the cached pieces."""
        self._gone: list[int] = []
        """Bodies in the store without a handle."""

    def begin(self, budget: PieceBudget, is_persistent: bool = True) -> LargeArrival:
        """Begin a body that arrives; the body of a message that is not persistent is deferred."""
        number = self.next_number
        self.next_number += 1
        body = LargeBody(number, self.ledger if self.stores else None)
        if self.stores and is_persistent:
            self._arriving[int(number)] = None
        return LargeArrival(self, body, budget, self.stores and not is_persistent)

    def restore(self, number: i64, octets: i64, spans: list[Span]) -> LargeBody:
        """Return a handle of a body in the store."""
        body = LargeBody(number, self.ledger)
        body.octets = octets
        body.spans = spans
        return body

    # Deferred pieces, and pieces on their way to the store

    def write(self, number: i64, pieces: dict[int, bytes], index: i64, budget: PieceBudget) -> None:
        """Queue a piece to be written."""
        octets = pieces[int(index)]
        self.writes.append(PieceWrite(number, pieces, index, octets, budget))
        size: i64 = len(octets)
        self.unwritten += size
        self.recorded += size
        budget.unwritten += size

    def defer(self, body: LargeBody, index: i64, budget: PieceBudget) -> None:
        """Defer a piece. The budget is charged for pieces that become writes because of it."""
        _extend(self._deferred, body.number, body.pieces, index)
        self.deferred += len(body.pieces[int(index)])
        if self.deferred + self.cached > self.in_memory_max:
            self.review_ended()
            self._drop_cached()
        while self.deferred > self.in_memory_max:
            oldest = next(iter(self._deferred))
            self._write_deferred(oldest, self._deferred[oldest], 1, budget)

    def store(self, body: LargeBody) -> None:
        """Queue the deferred pieces of a body for the next transaction."""
        entry = self._deferred.get(int(body.number))
        if entry is not None:
            self._write_deferred(int(body.number), entry, entry.end - entry.first, PieceBudget(self, None))

    def _write_deferred(self, number: int, entry: PieceRun, count: i64, budget: PieceBudget) -> None:
        """Turn the first deferred pieces of a body into writes."""
        for _ in range(count):
            self.deferred -= len(entry.pieces[int(entry.first)])
            self.write(number, entry.pieces, entry.first, budget)
            entry.first += 1
        if entry.first == entry.end:
            del self._deferred[number]

    def review_ended(self) -> None:
        """Drop the pieces in memory of bodies that have ended, and record the bodies in the store."""
        ended = self.ledger.take_unreferenced()
        if ended and self.writes:
            for write in self.writes:
                if not self.ledger.holds(int(write.number)):
                    self._discount(write)
            self.writes = [write for write in self.writes if self.ledger.holds(int(write.number))]
        for number in ended:
            self._arriving.pop(number, None)
            entry = self._deferred.pop(number, None)
            if entry is not None:
                self.deferred -= entry.octets()
            cached = self._cached.pop(number, None)
            if cached is not None:
                self.cached -= cached.octets()
            if number in self.ledger.stored:
                self._gone.append(number)

    def _drop_cached(self) -> None:
        """Drop the oldest written pieces from memory until all are within the bound."""
        while self._cached and self.deferred + self.cached > self.in_memory_max:
            _, entry = self._cached.popitem(last=False)
            self.cached -= entry.octets()
            for index in range(entry.first, entry.end):
                del entry.pieces[int(index)]

    # For the store

    def take_writes(self) -> list[PieceWrite]:
        """Take the pieces of the next transaction; pieces of bodies that have ended are dropped."""
        self.review_ended()
        if self.crowded:
            self.write_everything()
        taken = [write for write in self.writes if int(write.number) not in self._arriving]
        self.writes = [write for write in self.writes if int(write.number) in self._arriving]
        for write in taken:
            self.ledger.count(int(write.number), len(write.octets))
        return taken

    def is_urgent(self) -> bool:
        """Return whether a connection waits for pieces to be written."""
        return len(self.writes) > 0 and len(self.crowded) > 0

    def has_writes(self) -> bool:
        """Return whether the next transaction takes pieces."""
        if self.crowded or not self._arriving:
            return len(self.writes) > 0
        for write in self.writes:
            if int(write.number) not in self._arriving:
                return True
        return False

    def write_everything(self) -> None:
        """Include pieces of incomplete bodies in the next transaction, too."""
        self._arriving.clear()

    def arrived(self, number: i64) -> None:
        """Record that a body has arrived completely, or was aborted."""
        self._arriving.pop(int(number), None)

    def _discount(self, write: PieceWrite) -> None:
        octets: i64 = len(write.octets)
        self.unwritten -= octets
        write.budget.unwritten -= octets

    def written(self, writes: list[PieceWrite]) -> None:
        """Handle that pieces are in the store: they are dropped from memory when the room for written pieces is used
        up.
        """
        for write in writes:
            if self.ledger.holds(int(write.number)):
                _extend(self._cached, write.number, write.pieces, write.index)
                self.cached += len(write.octets)
            self._discount(write)
        self._drop_cached()
        self.notify_room()

    def has_room(self) -> bool:
        """Return whether the node has room for more pieces."""
        return self.unwritten < UNWRITTEN_OF_THE_NODE and not self.disk_short

    def notify_room(self) -> None:
        """Notify the connections that have room again."""
        if self.crowded:
            crowded, self.crowded = self.crowded, []
            for budget in crowded:
                if not budget.has_room():
                    self.crowded.append(budget)
                    continue
                budget.waiting = False
                if budget.listener is not None:
                    budget.listener.on_room()

    def notify_disk_changed(self) -> None:
        """Notify the connections that wait for room that a gate of the disk has closed or opened."""
        for budget in self.crowded:
            if budget.listener is not None:
                budget.listener.on_disk_changed()

    def take_reads(self) -> list[PieceRead]:
        """Take the pieces to be read."""
        reads, self.reads = self.reads, []
        return reads

    def take_unreferenced(self) -> list[int]:
        """Take the numbers of the bodies to delete in the next transaction."""
        self.review_ended()
        gone, self._gone = self._gone, []
        return gone

    def has_unreferenced(self) -> bool:
        """Return whether there are bodies to delete."""
        if self.ledger.ended:
            self.review_ended()
        return len(self._gone) > 0

    def is_idle(self) -> bool:
        """Return whether no write, read or deletion is pending."""
        return not self.writes and not self.reads and not self.has_unreferenced()


class LargeArrival:
    """A body that arrives."""

    __slots__ = ("body", "octets", "_bodies", "_budget", "_is_deferred", "_pieces", "_tail", "_tail_octets")

    def __init__(self, bodies: LargeBodies, body: LargeBody, budget: PieceBudget, is_deferred: bool) -> None:
        self.body = body
        self.octets: i64 = 0
        """Bytes that have arrived."""
        self._bodies = bodies
        self._budget = budget
        self._is_deferred = is_deferred
        self._pieces: i64 = 0
        """Number of complete pieces."""
        self._tail: list[bytes | memoryview] = []
        """The last piece, while it is incomplete, in the parts that arrived."""
        self._tail_octets: i64 = 0

    def append(self, data: bytes, start: i64 = 0, end: i64 = -1) -> None:
        """Append bytes of `data` from `start` on, up to `end`; -1 means all."""
        if end < 0:
            end = len(data)
        self.octets += end - start
        self._budget.arrived += end - start
        view = memoryview(data)
        while self._tail_octets + end - start >= PIECE_OCTETS:
            stop = start + PIECE_OCTETS - self._tail_octets
            self._tail.append(view[start:stop])
            start = stop
            self._complete()
        if start < end:
            # An object that a part refers to stays in memory as a whole: at most twice the counted bytes.
            self._tail.append(view[start:end] if (end - start) * 2 >= len(data) else data[start:end])
            self._tail_octets += end - start
            if len(self._tail) > TAIL_PARTS:
                self._tail = [b"".join(self._tail)]

    def held(self) -> i64:
        """Return the bytes that stay in memory: without a store all, otherwise the bytes of the incomplete piece."""
        return self.octets if self.body.ledger is None else self._tail_octets

    def must_wait(self) -> bool:
        """Return whether no more input may be read; the budget's listener is then notified once there is room."""
        return (not self._is_deferred or self._budget.unwritten > 0) and self._budget.is_full()

    def finish(self, spans: list[Span]) -> LargeBody:
        """Return the complete body with the spans of its data; an empty list means that all of it is data."""
        if self._tail_octets > 0:
            self._complete()
        body = self.body
        self._bodies.arrived(body.number)
        body.octets = self.octets
        body.spans = spans if spans else [Span(0, self.octets)]
        return body

    def _complete(self) -> None:
        """End a piece. With a store the piece is deferred, or queued to be written."""
        body = self.body
        index = self._pieces
        self._pieces += 1
        body.pieces[int(index)] = b"".join(self._tail)
        self._tail = []
        self._tail_octets = 0
        if self._is_deferred:
            self._bodies.defer(body, index, self._budget)
        elif body.ledger is not None:
            self._bodies.write(body.number, body.pieces, index, self._budget)


class LargeReader:
    """A reader of the bytes of a body, in order."""

    __slots__ = (
        "body", "left", "fault", "listener", "_bodies", "_spans", "_span", "_done", "_last", "_index", "_piece",
        "_ahead", "_read", "_waits", "_count",
    )  # fmt: skip

    def __init__(self, bodies: LargeBodies, body: LargeBody, spans: list[Span], listener: PieceListener) -> None:
        self.body = body
        self.listener: PieceListener | None = listener
        self.fault: str = ""
        """The reason why a read failed; empty while no read has failed."""
        self.left: i64 = 0
        """Bytes not taken yet."""
        self._last: i64 = -1
        """Index of the last piece that is needed."""
        for span in spans:
            self.left += span.octets
            if span.octets > 0:
                self._last = (span.start + span.octets - 1) // PIECE_OCTETS
        self._bodies = bodies
        self._spans = spans
        self._span: i64 = 0
        """Index of the present span."""
        self._done: i64 = 0
        """Bytes of the present span that were taken."""
        self._index: i64 = -1
        """Index of the piece at hand; -1 for none."""
        self._piece: bytes = b""
        self._ahead: bytes = b""
        """The next piece, once it was read ahead."""
        self._read: PieceRead | None = None
        """The piece that is being read."""
        self._waits: bool = False
        """True if the listener waits for the piece being read."""
        self._count: i64 = 0
        """Bytes of the piece at hand that `ready` has counted, for the following `take` or `write`."""

    def take(self, most: i64) -> bytes:
        """Take the bytes that `ready` counts."""
        if self.ready(most) == 0:
            return b""
        start = self._start()
        return self._piece[start : start + self._count]

    def write(self, out: BytesWriter, parts: Parts) -> None:
        """Write the bytes that `ready` has counted. Many become a part of their own, after the output written
        before.
        """
        start = self._start()
        end = start + self._count
        if self._count < PART_OCTETS:
            out.write(self._piece[start:end])
        else:
            parts += [out.getvalue(), memoryview(self._piece)[start:end]]
            out.truncate(0)

    def ready(self, most: i64) -> i64:
        """Return how many bytes are at hand, at most `most`, and subtract them from `left`; `write` must follow.

        The number is 0 at the end, after a fault, and while a piece is being read: then the listener is notified. It is
        smaller than possible at the end of a piece or a span.
        """
        self._count = 0
        spans = self._spans
        while self._span < len(spans) and self._done == spans[self._span].octets:
            self._span += 1
            self._done = 0
        if self._span == len(spans):
            return 0
        span = spans[self._span]
        position = span.start + self._done
        if not self._hold(position // PIECE_OCTETS):
            return 0
        at = position % PIECE_OCTETS
        count = span.octets - self._done
        if count > most:
            count = most
        if count > PIECE_OCTETS - at:
            count = PIECE_OCTETS - at
        self._done += count
        self.left -= count
        self._count = count
        return count

    def _start(self) -> i64:
        """Return the index of the counted bytes in the piece at hand."""
        return (self._spans[self._span].start + self._done - self._count) % PIECE_OCTETS

    def pause(self) -> None:
        """Drop the pieces at hand: no bytes are taken for some time."""
        self._read = None
        self._waits = False
        self._index = -1
        self._piece = b""
        self._ahead = b""

    def end(self) -> None:
        """End before all bytes are taken: the listener is not notified any more."""
        self.pause()
        self.listener = None
        self.left = 0
        self._spans = []
        self._span = 0

    def on_read(self, read: PieceRead, octets: bytes | None, fault: str) -> None:
        """Handle the end of a read, which may have failed."""
        if read is not self._read:
            return
        self._read = None
        if octets is not None:
            self._ahead = octets
        if not self._waits:
            return  # A failed read counts when the piece is needed: the piece is read again then.
        self._waits = False
        if octets is None:
            self.fault = fault or f"piece {read.index} of body {read.number} is not in the store"
        if self.listener is not None:
            self.listener.on_piece(self)

    def _hold(self, index: i64) -> bool:
        """Hold a piece, or wait for it. Return whether the piece is at hand."""
        if index == self._index:
            return True
        if self._waits or self.fault:
            return False
        ahead = self._ahead
        in_turn = index == self._index + 1
        self._ahead = b""
        self._piece = b""
        piece = self.body.pieces.get(int(index))
        if piece is None and ahead and in_turn:
            piece = ahead
        if piece is None:
            self._index = index - 1
            self._waits = True
            self._ask(index)
            return False
        self._index = index
        self._piece = piece
        if index < self._last and int(index + 1) not in self.body.pieces:
            self._ask(index + 1)
        return True

    def _ask(self, index: i64) -> None:
        """Request a piece, unless it is being read."""
        read = self._read
        if read is None or read.index != index:
            self._read = PieceRead(self, self.body.number, index)
            self._bodies.reads.append(self._read)
