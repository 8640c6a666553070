"""Rows of the store: the encoder of messages, and the decoder for recovery and paging."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from penstock.core.gates.address_depth import AddressShare
from penstock.core.journal.group import JournalGroup, MessageRun
from penstock.core.large_bodies import LargeBodies
from penstock.core.large_content import is_large, number_of, octets_of, restored_content
from penstock.core.message import (
    BccEnvelope,
    DelayedEnvelope,
    Envelope,
    HeaderDelay,
    StoredMessage,
    TrackedMessage,
)
from penstock.core.queue.queue import Queue
from penstock.core.queue.storage import QueueStorage
from penstock.errors import StoreError
from penstock.flow.timers import NEVER
from penstock.settings.lengths import NAME_MAX

FORMAT: Final = 1
"""Format of rows, and of settlement records (settlements.py)."""
ADDRESS: Final = 1
QUEUE: Final = 2
TIME: Final = 3
MESSAGE: Final = 4
COPY: Final = 5
PASSING: Final = 6
"""Kind of address of transient messages, which are in the store only because they were paged out."""
LETTER: Final = 7
PASSING_LETTER: Final = 8
"""Kinds of addresses of dead letters: as ADDRESS, and as PASSING."""
DELAYED: Final = 9
"""The messages up to the next address are delayed: a wall-clock time, and the delay by a header or `NO_HEADER`."""
NO_HEADER: Final = -1
MICROSECONDS: Final = 1e6
NO_TTL: Final = -1


OCTETS_A_STEP: Final = 64 * 1024
"""Octets of a row that are encoded in one step, besides those of the step's last message."""
MESSAGES_A_UNIT: Final = 4
ROW_OCTETS_A_UNIT: Final = 4096
"""Messages, and octets, that are encoded with one unit of work."""


class RowEncoder:
    """Encoder of the messages of a closed group, in steps."""

    def __init__(self, group: JournalGroup, wall_offset: float) -> None:
        self.complete: bool = False
        """True if all messages are encoded."""
        self.bodies: list[int] = []
        """Numbers of the bodies of large messages."""
        self._runs = group.runs
        self._wall_offset = wall_offset
        """Seconds since the epoch, minus the broker's clock."""
        self._out = BytesWriter()
        self._out.append(FORMAT)
        self._run: i64 = 0
        self._at: i64 = 0
        """The run and the message in it that are encoded next."""
        self._following: i64 = -1
        """Sequence that the next message has if it follows the last one."""
        self._address: Envelope | None = None
        self._arrived: float = NEVER
        self._content = b""
        """Address, arrival and content of the last message."""

    def step(self) -> i64:
        """Encode some messages; return the units of work."""
        begin: i64 = len(self._out)
        messages: i64 = 0
        while self._run < len(self._runs):
            at = self._at
            is_whole = self._encode(self._runs[self._run], begin + OCTETS_A_STEP)
            messages += self._at - at
            if not is_whole:
                return messages // MESSAGES_A_UNIT + OCTETS_A_STEP // ROW_OCTETS_A_UNIT
            self._run += 1
            self._at = 0
            self._following = -1
        self.complete = True
        return messages // MESSAGES_A_UNIT + (len(self._out) - begin) // ROW_OCTETS_A_UNIT

    def _encode(self, run: MessageRun, end: i64) -> bool:
        """Encode messages of a run until the row has so many octets; return whether the run is complete."""
        out, wall_offset, messages = self._out, self._wall_offset, run.messages
        address, arrived, content, following = self._address, self._arrived, self._content, self._following
        at = self._at
        while at < len(messages) and len(out) < end:
            message = messages[at]
            at += 1
            if message.sequence != following:
                out.append(QUEUE)
                write_i64_be(out, run.storage.number)
                write_i64_be(out, message.sequence)
            following = message.sequence + 1
            if message.envelope is not address:
                address = message.envelope
                if isinstance(address, DelayedEnvelope):
                    _write_delayed(out, address, wall_offset)
                else:
                    _write_address(out, address)
            if message.arrived != arrived:
                arrived = message.arrived
                out.append(TIME)
                write_i64_be(out, round((arrived + wall_offset) * 1e6))
            if message.content is not content and is_large(message.content):
                self.bodies.append(int(number_of(message.content)))
            content = _write_message(out, message, content)
        self._address, self._arrived, self._content, self._following = address, arrived, content, following
        self._at = at
        return at == len(messages)

    def row(self) -> bytes:
        """Return the complete row."""
        return self._out.getvalue()


def _write_message(out: BytesWriter, message: StoredMessage, before: bytes) -> bytes:
    content = message.content
    out.append(COPY if content is before else MESSAGE)
    write_i16_be(out, message.past)
    write_i64_be(out, message.charge)
    if content is not before:
        write_i32_be(out, i32(len(content)))
        out.write(content)
    return content


def _write_address(out: BytesWriter, address: Envelope) -> None:
    if address.died:
        out.append(LETTER if address.persistent else PASSING_LETTER)
    else:
        out.append(ADDRESS if address.persistent else PASSING)
    out.append(int(address.priority))
    write_i64_be(out, NO_TTL if address.ttl_s == NEVER else round(address.ttl_s * 1000))
    _write_name(out, address.exchange)
    _write_name(out, address.routing_key)
    blind = address.bcc if isinstance(address, BccEnvelope) else []
    write_i16_be(out, i16(len(blind)))
    for key in blind:
        _write_name(out, key)


def _write_delayed(out: BytesWriter, address: DelayedEnvelope, wall_offset: float) -> None:
    _write_address(out, address.plain)
    out.append(DELAYED)
    write_i64_be(out, round((address.due + wall_offset) * MICROSECONDS))
    write_i64_be(out, NO_HEADER if address.header is None else address.header.delay_ms)


def _write_name(out: BytesWriter, name: str) -> None:
    octets = name.encode()
    if len(octets) > NAME_MAX:
        raise ValueError(f"name '{name}' has {len(octets)} bytes; a row has room for {NAME_MAX}")
    out.append(len(octets))
    out.write(octets)


ADDRESSES_KEPT: Final = 4096
"""Most cached addresses; at the bound the cache is cleared."""


class RowContext:
    """Context of a row: its queues, clocks and address depths."""

    def __init__(self, wall_offset: float, transient: bool, shares: bool) -> None:
        self.wall_offset = wall_offset
        """Seconds since the epoch, minus the broker's clock."""
        self.now: float = NEVER
        """Latest possible arrival: seconds of the broker's clock."""
        self.transient = transient
        """True if transient messages are still valid."""
        self.shares = shares
        """True if messages may count in the depth of an address."""
        self.large = LargeBodies()
        """Bodies of large messages."""
        self.orphans: int = 0
        """Number of dropped messages: of deleted queues, and transient messages."""
        self._addresses: dict[bytes, Envelope] = {}

    def queue(self, number: i64) -> Queue | None:
        """Return a queue by its number; None if it was deleted."""
        raise NotImplementedError

    def is_whole(self, content: bytes) -> bool:
        """Return whether the store has all of the body that a large content refers to."""
        return self.large.ledger.is_whole(int(number_of(content)), int(octets_of(content)))

    def share(self, queue: Queue, address: Envelope, charge: i64) -> AddressShare | None:
        """Return a message's share of its address's depth; None if the address has no bound, or the message no
        share.
        """
        return None

    def address(self, data: bytes, start: i64, end: i64) -> Envelope:
        """Return the address in these bytes, whose first byte is its kind; equal addresses return one object."""
        octets = data[start:end]
        envelope = self._addresses.get(octets)
        if envelope is None:
            if len(self._addresses) >= ADDRESSES_KEPT:
                self._addresses.clear()
            envelope = _read_address(octets)
            self._addresses[octets] = envelope
        return envelope

    def read(self, group: JournalGroup, data: bytes) -> RowDecoder:
        """Decode a row into a group. Raises StoreError if it is malformed."""
        try:
            reader = RowDecoder(self, group, data)
            reader.read()
        except (IndexError, ValueError):
            raise StoreError(f"row {group.number} of the store cannot be read: it is cut short or damaged") from None
        group.size = group.bytes + reader.dropped
        return reader


def storage_of(queue: Queue) -> QueueStorage:
    """Return the storage of a queue in the store."""
    if queue.storage is not None:
        return queue.storage
    assert queue.pager is not None
    return queue.pager.storage


class RowDecoder:
    """Decoder of one row into a group."""

    def __init__(self, source: RowContext, group: JournalGroup, data: bytes) -> None:
        self.source = source
        self.group = group
        self.data = data
        self.dropped: i64 = 0
        """Charges of dropped messages: of deleted queues, and transient messages."""
        self._queue: Queue | None = None
        self._sequence: i64 = 0
        self._address = Envelope("", "")
        self._arrived: float = 0.0
        self._written: float = 0.0
        """Arrival as the store has it, which is later than now if the clock was set back."""
        self._due: float = NEVER
        """Time when the messages are due (seconds of the broker's clock); infinity for messages without a delay."""
        self._delay_ms: i64 = NO_HEADER
        self._content = b""
        self._is_whole: bool = True
        """False if the last content is large and its body is not in the store."""
        self._share: AddressShare | None = None
        self._run: list[StoredMessage] = []
        self._bytes: i64 = 0
        """Charges of decoded messages."""

    def read(self) -> None:
        """Decode the whole row. Raises StoreError, IndexError, ValueError."""
        data = self.data
        n: i64 = len(data)
        if data[0] != FORMAT:
            raise StoreError(
                f"row {self.group.number} of the store has format {data[0]}, but this version reads {FORMAT}"
            )
        pos: i64 = 1
        while pos < n:
            kind: i64 = data[pos]
            if kind == MESSAGE and self._is_simple():
                after = self._simple(pos)
                if after > pos:
                    pos = after
                    continue
            pos += 1
            if kind == MESSAGE or kind == COPY:
                pos = self._message(pos, kind == COPY)
            elif kind == QUEUE:
                self._queue = self.source.queue(read_i64_be(data, pos))
                self._sequence = read_i64_be(data, pos + 8)
                if self._queue is not None:
                    run = MessageRun(storage_of(self._queue), len(self.group.messages))
                    self._run = run.messages
                    self.group.runs.append(run)
                pos += 16
            elif kind == ADDRESS or PASSING <= kind <= PASSING_LETTER:
                end = _end_of_address(data, pos)
                self._address = self.source.address(data, pos - 1, end)
                self._due = NEVER
                pos = end
            elif kind == DELAYED:
                self._due = float(read_i64_be(data, pos)) / MICROSECONDS - self.source.wall_offset
                self._delay_ms = read_i64_be(data, pos + 8)
                pos += 16
            elif kind == TIME:
                arrived = float(read_i64_be(data, pos)) / MICROSECONDS - self.source.wall_offset
                self._written = arrived
                self._arrived = min(arrived, self.source.now)  # A clock that is off delays the expiry.
                pos += 8
            else:
                raise StoreError(f"row {self.group.number} of the store has a record of unknown kind {kind}")
        for run in self.group.runs:
            self.group.live += len(run.messages)
        self.group.bytes = self._bytes

    def following(self) -> i64:
        """Return the sequence number after the last message."""
        return self._sequence

    def _is_simple(self) -> bool:
        """Return whether the next messages have only content of their own, as nearly all have."""
        address = self._address
        if self._queue is None or self.source.shares or address.ttl_s != NEVER or self._due != NEVER:
            return False
        return address.persistent or self.source.transient

    def _simple(self, pos: i64) -> i64:
        """Fast path of `_message`: decode consecutive messages without own properties or a large body."""
        data, group, run = self.data, self.group, self._run
        address, arrived, sequence = self._address, self._arrived, self._sequence
        places = group.messages
        place: i64 = len(places)
        total: i64 = 0
        n: i64 = len(data)
        while pos < n and data[pos] == MESSAGE:
            end = pos + 15 + i64(read_i32_be(data, pos + 11))
            if end < pos + 15 or end > n:
                raise StoreError(f"row {group.number} of the store is cut short")
            content = data[pos + 15 : end]
            if is_large(content):
                break
            charge = read_i64_be(data, pos + 3)
            message = StoredMessage(address, content, charge, sequence, arrived)
            message.past = read_i16_be(data, pos + 1)
            message.group = group
            message.index = place
            places.append(message)
            run.append(message)
            self._content = content
            self._is_whole = True
            place += 1
            sequence += 1
            total += charge
            pos = end
        self._sequence = sequence
        self._bytes += total
        self._share = None
        return pos

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
            self._take_content(data[pos : pos + size])
            pos += size
            self._share = None
        queue = self._queue
        places = self.group.messages
        if queue is None or not (self._address.persistent or self.source.transient):
            self.source.orphans += 1
            self.dropped += charge
            places.append(None)
        elif not self._is_whole:  # Settled, or with damaged pieces: then its queue lacks a message.
            self.dropped += charge
            places.append(None)
        else:
            message = self._made(queue, charge, copy)
            if returns:
                message.past = returns
            message.group = self.group
            message.index = len(places)
            places.append(message)
            self._run.append(message)
            self._bytes += charge
        self._sequence += 1
        return pos

    def _take_content(self, content: bytes) -> None:
        """Take the content of the next message, with its body if it is large."""
        self._is_whole = not is_large(content) or self.source.is_whole(content)
        self._content = restored_content(content, self.source.large) if self._is_whole else content

    def _made(self, queue: Queue, charge: i64, copy: bool) -> StoredMessage:
        address = self._address
        if self.source.shares and (not copy or self._share is None):
            self._share = self.source.share(queue, address, charge)
        if self._due != NEVER:
            delayed = self._delayed_envelope()
            message = StoredMessage(delayed, self._content, charge, self._sequence, self._arrived)
            message.share = self._share
            return message
        if self._share is None and address.ttl_s == NEVER:
            return StoredMessage(address, self._content, charge, self._sequence, self._arrived)
        return TrackedMessage(address, self._content, charge, self._sequence, self._arrived, self._share)

    def _delayed_envelope(self) -> DelayedEnvelope:
        """Return the envelope of a delayed message. No message waits longer from now than its whole delay, whatever the
        clock says.
        """
        latest = self.source.now + self._due - self._written
        due = self._due if self._due < latest else latest
        return DelayedEnvelope(self._address, due, None if self._delay_ms == NO_HEADER else HeaderDelay(self._delay_ms))


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


def _read_address(octets: bytes) -> Envelope:
    persistent = octets[0] == ADDRESS or octets[0] == LETTER
    died = octets[0] == LETTER or octets[0] == PASSING_LETTER
    priority: i64 = octets[1]
    ttl_ms = read_i64_be(octets, 2)
    ttl_s = NEVER if ttl_ms == NO_TTL else int(ttl_ms) / 1000
    texts: list[str] = []
    pos = 10
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
        return BccEnvelope(exchange, key, texts, priority, ttl_s, persistent, died)
    return Envelope(exchange, key, priority, ttl_s, persistent, died)
