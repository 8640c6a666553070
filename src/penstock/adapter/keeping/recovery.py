"""What the store has, back into a broker: the messages of its rows, less what the notes say.

The queues are there already, with their numbers (see things.py) and positions. Rows come oldest first, but a message
may have moved to a younger row, so each queue's are put in order before they go in.
"""

from __future__ import annotations

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i16, i64

from penstock.adapter.keeping.notes import Fate, decode_note
from penstock.adapter.keeping.rows import ADDRESS, COPY, FORMAT, MESSAGE, NO_TTL, QUEUE, TIME
from penstock.core.broker import Broker
from penstock.core.cursor import let_go
from penstock.core.group import Group, Note, Run
from penstock.core.journal import Journal
from penstock.core.message import Address, BlindAddress, MarkedMessage, StoredMessage
from penstock.core.queue import Queue
from penstock.core.share import Share, share_of
from penstock.core.storing import restore
from penstock.errors import StoreError
from penstock.flow.deadlines import NEVER


class Recovery:
    """One recovery; `finish` ends it."""

    def __init__(self, broker: Broker, journal: Journal, wall_offset: float) -> None:
        self.broker = broker
        self.journal = journal
        self.wall_offset = wall_offset
        """Seconds since the epoch, less the broker's clock."""
        self.messages: int = 0
        """How many have come back."""
        self.orphans: int = 0
        """Messages of queues that are no more."""
        self._queues: dict[int, Queue] = {}
        self._found: dict[int, list[StoredMessage]] = {}
        self._fates: dict[int, Fate] = {}
        self._addresses: dict[bytes, Address] = {}
        self._notes: list[Note] = []
        """Those about rows that are not there."""
        self._highest: int = 0
        for vhost in broker.vhosts.values():
            for queue in vhost.queues.values():
                if queue.kept is not None:
                    self._queues[int(queue.kept.number)] = queue
                    self._found[int(queue.kept.number)] = []

    def position(self, number: int, tail: int, delivered: int) -> None:
        """Take how far a queue had come."""
        queue = self._queues.get(number)
        if queue is not None and queue.kept is not None:
            queue.tail = tail
            queue.kept.delivered = delivered
            queue.kept.announced = delivered

    def note(self, number: int, data: bytes) -> None:
        """Take a note. All of them come before the rows. Raises StoreError."""
        decode_note(number, data, self._fates)
        self._highest = max(self._highest, number)

    def row(self, number: int, data: bytes) -> None:
        """Take a row. Raises StoreError for one that is not well formed, with nothing of it taken."""
        self._highest = max(self._highest, number)
        group = Group(number)
        try:
            reader = RowReader(self, group, data)
            reader.read()
        except (IndexError, ValueError):
            raise StoreError(f"row {number} of the store cannot be read: it is cut short or damaged") from None
        fate = self._fates.pop(number, None)
        if fate is not None:
            _apply(fate, group, self.journal)
        group.size = group.bytes + reader.dropped
        for run in group.runs:
            self._found[int(run.kept.number)] += [message for message in run.messages if message.group is not None]
            run.messages = []
        self.journal.restore(group)
        self.messages += int(group.live)

    def finish(self) -> None:
        """Put all messages into their queues, in order, and judge the queues by what they hold."""
        self.journal.number_from(self._highest + 1)
        for fate in self._fates.values():
            self._notes += fate.notes
        self.journal.open.stale += [int(note.number) for note in self._notes if note.rows == 0]
        broker = self.broker
        for number, queue in self._queues.items():
            found = self._found[number]
            found.sort(key=_sequence_of)
            restore(queue, found, broker.now)
            let_go(queue, broker.now)
            broker.watch_lifetime(queue)
            broker.mark(queue)
        broker.settle_crossings()

    def address(self, data: bytes, start: i64, end: i64) -> Address:
        """Return the address in these octets; those that are the same are one."""
        octets = data[start:end]
        found = self._addresses.get(octets)
        if found is None:
            found = _read_address(octets)
            self._addresses[octets] = found
        return found

    def queue(self, number: i64) -> Queue | None:
        """Return a queue by its number; None if it is no more."""
        return self._queues.get(int(number))

    def share(self, queue: Queue, address: Address, charge: i64) -> Share | None:
        """Return a message's part in the depth of its address; None where that has no bound."""
        exchange = self.broker.vhosts[queue.vhost].exchanges.get(address.exchange)
        return None if exchange is None or not exchange.gates else share_of(exchange.gates, charge)


class RowReader:
    """Reads one row into a group."""

    def __init__(self, recovery: Recovery, group: Group, data: bytes) -> None:
        self.recovery = recovery
        self.group = group
        self.data = data
        self.dropped: i64 = 0
        """Charges of messages whose queue is no more."""
        self._queue: Queue | None = None
        self._sequence: i64 = 0
        self._address = Address("", "")
        self._arrived: float = 0.0
        self._content = b""
        self._share: Share | None = None

    def read(self) -> None:
        """Read all of it. Raises StoreError, IndexError, ValueError."""
        data = self.data
        n: i64 = len(data)
        if data[0] != FORMAT:
            raise StoreError(f"row {self.group.number} of the store has format {data[0]}; this version reads {FORMAT}")
        pos: i64 = 1
        while pos < n:
            kind: i64 = data[pos]
            pos += 1
            if kind == MESSAGE or kind == COPY:
                pos = self._message(pos, kind == COPY)
            elif kind == QUEUE:
                self._queue = self.recovery.queue(read_i64_be(data, pos))
                self._sequence = read_i64_be(data, pos + 8)
                if self._queue is not None and self._queue.kept is not None:
                    self.group.runs.append(Run(self._queue.kept, len(self.group.messages)))
                pos += 16
            elif kind == ADDRESS:
                end = _end_of_address(data, pos)
                self._address = self.recovery.address(data, pos, end)
                pos = end
            elif kind == TIME:
                arrived = float(read_i64_be(data, pos)) / 1e6 - self.recovery.wall_offset
                self._arrived = min(arrived, self.recovery.broker.now)  # Else it lives longer by what the clock is off.
                pos += 8
            else:
                raise StoreError(f"row {self.group.number} of the store has a record of unknown kind {kind}")

    def _message(self, pos: i64, copy: bool) -> i64:
        data = self.data
        returns = read_i16_be(data, pos)
        charge = read_i64_be(data, pos + 2)
        pos += 10
        if not copy:
            size = i64(read_i32_be(data, pos))
            pos += 4
            if size < 0 or pos + size > len(data):
                raise StoreError(f"row {self.group.number} of the store is cut short")
            self._content = data[pos : pos + size]
            pos += size
            self._share = None
        queue = self._queue
        group = self.group
        if queue is None:
            self.recovery.orphans += 1
            self.dropped += charge
            group.messages.append(None)
        else:
            message = self._made(queue, charge, copy)
            message.returns = returns
            message.group = group
            message.place = len(group.messages)
            group.messages.append(message)
            group.live += 1
            group.bytes += charge
            group.runs[-1].messages.append(message)
        self._sequence += 1
        return pos

    def _made(self, queue: Queue, charge: i64, copy: bool) -> StoredMessage:
        address = self._address
        if not copy or self._share is None:
            self._share = self.recovery.share(queue, address, charge)
        if self._share is None and address.ttl_s == NEVER:
            return StoredMessage(address, self._content, charge, self._sequence, self._arrived)
        return MarkedMessage(address, self._content, charge, self._sequence, self._arrived, self._share)


def _apply(fate: Fate, group: Group, journal: Journal) -> None:
    """Leave out of a group what notes say is settled, and let the others know how often they came back."""
    ranges = fate.settled
    for at in range(0, len(ranges), 2):
        for place in range(ranges[at], ranges[at] + ranges[at + 1]):
            message = group.messages[place]
            if message is not None:
                message.group = None
                group.messages[place] = None
                group.live -= 1
                group.bytes -= message.charge
    for place, returns in fate.returns.items():
        left = group.messages[place]
        if left is not None:
            left.returns = i16(returns)
    for note in fate.notes:
        group.notes.append(note)
        note.rows += 1


def _end_of_address(data: bytes, pos: i64) -> i64:
    pos += 9
    pos += 1 + i64(data[pos])
    pos += 1 + i64(data[pos])
    left = i64(read_i16_be(data, pos))
    pos += 2
    while left > 0:
        pos += 1 + i64(data[pos])
        left -= 1
    return pos


def _read_address(octets: bytes) -> Address:
    priority: i64 = octets[0]
    ttl_ms = read_i64_be(octets, 1)
    ttl_s = NEVER if ttl_ms == NO_TTL else int(ttl_ms) * 0.001
    texts: list[str] = []
    pos = 9
    exchange = octets[pos + 1 : pos + 1 + octets[pos]].decode()
    pos += 1 + octets[pos]
    key = octets[pos + 1 : pos + 1 + octets[pos]].decode()
    pos += 1 + octets[pos]
    left = int(read_i16_be(octets, pos))
    pos += 2
    while left > 0:
        texts.append(octets[pos + 1 : pos + 1 + octets[pos]].decode())
        pos += 1 + octets[pos]
        left -= 1
    if texts:
        return BlindAddress(exchange, key, texts, priority, ttl_s, True)
    return Address(exchange, key, priority, ttl_s, True)


def _sequence_of(message: StoredMessage) -> int:
    return int(message.sequence)
