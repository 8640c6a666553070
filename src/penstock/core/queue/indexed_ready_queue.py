"""Ready messages that can be read, and taken, anywhere: in queues with selectors, browsers or cursors.

Theory of operation. Messages arrive in `ready`, and scans move them into the index: chunks of some hundred messages in
the order of their sequences. Messages in the index are older than messages in `ready`, except requeued messages that
wait in `returned`. Positions are sequences, so no removal makes a position invalid. Finding a position takes two binary
searches, and taking a message moves no more than a chunk. A chunk has the sum of its charges, so the end of a range is
found chunk by chunk.

A `Place` is the progress of one scan. The scan has seen every message that was ready up to its position. A message that
was unacknowledged then, and is requeued later, is recorded as missed, unless the scan had seen it before. For this
check the queue remembers which scans had seen a message when it was taken (`SEEN_MAX` messages; other messages are
scanned once more).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.message import Message, TrackedMessage
from penstock.core.queue.deferred_free import DeferredFree
from penstock.core.queue.ready_queue import NOTHING, Priorities, ReadyQueue
from penstock.flow.timers import NEVER

CHUNK: Final = 256
"""Messages of a chunk; a chunk is split at twice as many."""
REACH_WORK: Final = 10
"""Units of work to move a chunk of messages into the index."""
SEEN_MAX: Final = 1024
"""Most taken messages for which the queue remembers the scans that had seen them."""
MISSED_MAX: Final = 1024
"""Most missed messages that a place records one by one; beyond, it returns to the oldest of them."""


class Chunk:
    """Some hundred messages in order."""

    __slots__ = ("messages", "bytes", "messages_before", "bytes_before")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.bytes: i64 = 0
        """Sum of the messages' charges."""
        self.messages_before: i64 = 0
        self.bytes_before: i64 = 0
        """Sums over the chunks before this one, including messages taken since; see `IndexedReadyQueue.summed`."""

    def first(self) -> i64:
        """Return the sequence of the chunk's first message."""
        return self.messages[0].sequence

    def last(self) -> i64:
        """Return the sequence of the chunk's last message."""
        return self.messages[len(self.messages) - 1].sequence

    def take(self, offset: i64) -> Message:
        """Remove a message."""
        message = self.messages.pop(offset)
        self.bytes -= message.charge
        return message

    def split(self) -> Chunk:
        """Remove all but the first `CHUNK` messages, and return the removed ones as a chunk."""
        rest = Chunk()
        rest.messages = self.messages[CHUNK:]
        del self.messages[CHUNK:]
        for message in rest.messages:
            rest.bytes += message.charge
        self.bytes -= rest.bytes
        return rest


class Place:
    """The position of a scan in one line of a queue."""

    __slots__ = ("bit", "position", "missed")

    def __init__(self) -> None:
        self.bit: int = 0
        """The scan's bit in `IndexedReadyQueue.seen`."""
        self.position: i64 = 0
        """The sequence up to which the scan has seen every message that was ready."""
        self.missed: list[int] = []
        """Sequences up to the position that the scan has not seen, in order."""

    def miss(self, sequence: i64) -> None:
        """Record a requeued message that the scan has not seen."""
        if len(self.missed) < MISSED_MAX:
            at = bisect_left(self.missed, int(sequence))
            if at == len(self.missed) or self.missed[at] != sequence:
                self.missed.insert(at, int(sequence))
            return
        oldest: i64 = self.missed[0]
        self.position = (sequence if sequence < oldest else oldest) - 1
        self.missed = []

    def forget(self) -> None:
        """Forget the missed messages: the queue is empty."""
        self.missed.clear()

    def has_seen(self, sequence: i64) -> bool:
        """Return whether the scan has seen a ready message."""
        if sequence > self.position:
            return False
        at = bisect_left(self.missed, int(sequence))
        return at == len(self.missed) or self.missed[at] != sequence


class IndexedReadyQueue(ReadyQueue):
    """One line of messages with an index."""

    def __init__(self, line: ReadyQueue) -> None:
        super().__init__()
        self._take_over(line)
        self.chunks: list[Chunk] = []
        """The index; no chunk is empty."""
        self.indexed: i64 = 0
        """Number of messages in the index."""
        self.summed: i64 = 0
        """Number of chunks, from the first, whose `messages_before` and `bytes_before` agree with each other.

        Taking from the first chunk changes none of them. After a change in the middle `count_through` computes later
        sums again.
        """
        self.places: list[Place] = []
        """Places of the scans that take messages by selectors."""
        self.seen: dict[int, int] = {}
        """Bits of the places that had seen a taken message, by the message's sequence."""
        self.news: bool = False
        """True if messages entered the index, or were requeued, since `take_news`."""
        self._chunk: i64 = 0
        self._offset: i64 = 0
        """Index of the next message of `step`."""

    def _take_over(self, line: ReadyQueue) -> None:
        """Take the messages of a line. Not in `__init__`, where mypyc would not free the former values."""
        self.ready = line.ready  # Routes append to this deque.
        self.returned = line.returned
        self.expiring = line.expiring
        self.tombstones = line.tombstones
        self.idle = line.idle

    # Reading by position

    def reach(self, sequence: i64) -> bool:
        """Go to the first message after a sequence. Returns False if new messages must enter the index first.

        Each call moves at most one chunk; the caller counts `REACH_WORK` and calls again.
        """
        if self.last() < sequence and self._index_some() and self.last() < sequence:
            return False
        self._seek(sequence)
        return True

    def _seek(self, sequence: i64) -> None:
        """Go to the first message after a sequence, without rebuilding the index."""
        self._chunk, self._offset = self._place_after(sequence)

    def _place_after(self, sequence: i64) -> tuple[i64, i64]:
        """Return the chunk and the offset of the first message after a sequence."""
        chunks = self.chunks
        low: i64 = 0
        high: i64 = len(chunks)
        while low < high:
            middle = (low + high) >> 1
            if chunks[middle].first() <= sequence:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return 0, 0
        return low - 1, _offset_after(chunks[low - 1].messages, sequence)

    def step(self) -> Message | None:
        """Return the next message and advance; None at the end. New messages are moved into the index as needed."""
        if not self._has_next():
            return None
        message = self.chunks[self._chunk].messages[self._offset]
        self._offset += 1
        return message

    def _has_next(self) -> bool:
        """Go from the end of a chunk to the next one. Returns False at the end of all messages."""
        chunks = self.chunks
        while True:
            if self._chunk < len(chunks):
                if self._offset < len(chunks[self._chunk].messages):
                    return True
                if self._chunk + 1 < len(chunks):
                    self._chunk += 1
                    self._offset = 0
                    continue
            if not self._index_some():
                return False

    def take_stepped(self) -> None:
        """Remove the message that `step` returned last, to deliver it."""
        self._offset -= 1
        chunk = self.chunks[self._chunk]
        message = chunk.take(self._offset)
        self.indexed -= 1
        if self._chunk > 0:
            self._on_changed(self._chunk)
        if not chunk.messages:
            self._on_removed(self._chunk)
            del self.chunks[self._chunk]
            if self._chunk == len(self.chunks) and self._chunk > 0:
                self._chunk -= 1
                self._offset = len(self.chunks[self._chunk].messages)
        self._on_taken(message)

    def holds(self, message: Message) -> bool:
        """Return whether a message is in the index."""
        if self.last() < message.sequence:
            return False
        self._seek(message.sequence - 1)
        return self.step() is message

    def last(self) -> i64:
        """Return the sequence of the last message in the index; 0 if the index is empty."""
        return self.chunks[len(self.chunks) - 1].last() if self.chunks else 0

    def newest(self) -> i64:
        """Return the sequence of the newest message, in the index or in `ready`; 0 if there is none."""
        if self.ready:
            return self.ready[-1].sequence
        newest = self.last()
        for sequence, _ in self.returned:
            if sequence > newest:
                newest = sequence
        return newest

    def has_after(self, place: Place) -> bool:
        """Return whether there may be messages that a place has not seen."""
        if len(self.ready) > 0 or len(self.returned) > 0 or len(place.missed) > 0:
            return True
        return self.last() > place.position

    def count_after(self, place: Place) -> i64:
        """Return the most messages that a place may not have seen."""
        seen, _ = self.count_through(place.position)
        return self.available() - seen + len(place.missed)

    def take_news(self) -> bool:
        """Return whether messages arrived or were requeued since the last call."""
        news = self.news
        self.news = False
        return news or len(self.ready) > 0 or len(self.returned) > 0

    def _index_some(self) -> bool:
        """Move up to a chunk of new messages into the index; returns whether there were any."""
        chunks = self.chunks
        is_new = not chunks or len(chunks[len(chunks) - 1].messages) >= CHUNK
        chunk = Chunk() if is_new else chunks[len(chunks) - 1]
        messages = chunk.messages
        left: i64 = CHUNK
        while left > 0 and (self.returned or self.ready):
            message = heapq.heappop(self.returned)[1] if self.returned else self.ready.popleft()
            if isinstance(message, TrackedMessage) and message.is_tombstone:
                self.tombstones -= 1
                continue
            messages.append(message)
            chunk.bytes += message.charge
            left -= 1
        moved = CHUNK - left
        if moved == 0:
            return False
        if is_new:
            if self.summed == len(chunks):
                self._sum_next(chunk)
            chunks.append(chunk)
        self.indexed += moved
        self.news = True
        return True

    def _insert(self, message: Message) -> None:
        """Insert a message into the index, which is not empty, at its position."""
        self._seek(message.sequence)
        chunk = self.chunks[self._chunk]
        chunk.messages.insert(self._offset, message)
        chunk.bytes += message.charge
        self.indexed += 1
        is_full = len(chunk.messages) >= 2 * CHUNK
        if is_full or self._chunk > 0:
            self._on_changed(self._chunk)
        if is_full:
            self.chunks.insert(self._chunk + 1, chunk.split())

    def _on_changed(self, at: i64) -> None:
        """Record a change of the messages of a chunk: the sums of later chunks are wrong."""
        if self.summed > at + 1:
            self.summed = at + 1

    def _on_removed(self, at: i64) -> None:
        """Record the removal of a chunk: without the first chunk the sums of the others still agree with each other."""
        if at == 0:
            self.summed = self.summed - 1 if self.summed > 0 else 0
        elif self.summed > at:
            self.summed = at

    def _sum_next(self, chunk: Chunk) -> None:
        """Set the sums of the first chunk without valid sums."""
        if self.summed > 0:
            last = self.chunks[self.summed - 1]
            chunk.messages_before = last.messages_before + len(last.messages)
            chunk.bytes_before = last.bytes_before + last.bytes
        self.summed += 1

    def count_through(self, sequence: i64) -> tuple[i64, i64]:
        """Return the number of messages in the index up to a sequence, and their bytes.

        The call takes two binary searches and the sum over a part of a chunk. After a change in the middle the sums of
        later chunks are computed again, once.
        """
        chunks = self.chunks
        if not chunks:
            return 0, 0
        at, count = self._place_after(sequence)
        while self.summed <= at:
            self._sum_next(chunks[self.summed])
        chunk = chunks[at]
        size: i64 = 0
        for index in range(count):
            size += chunk.messages[index].charge
        if at > 0:
            count += len(chunks[0].messages) + chunk.messages_before - chunks[1].messages_before
            size += chunks[0].bytes + chunk.bytes_before - chunks[1].bytes_before
        return count, size

    # Ranges, for cursors

    def extent(self, start: i64, rows: i64, bytes: i64, upto: i64) -> tuple[i64, i64, i64]:
        """Return the end of a range after `start`, within rows, bytes and a last sequence; its messages and bytes.

        One message is included even if it is larger than `bytes`. Whole chunks are not searched.
        """
        if start >= upto or start >= self.newest():
            return start, 0, 0  # No message must be moved into the index for this.
        while not self.reach(start):
            pass
        end = start
        count: i64 = 0
        size: i64 = 0
        while count < rows and self._has_next():
            chunk = self.chunks[self._chunk]
            some = len(chunk.messages)
            if self._offset == 0 and count + some <= rows and size + chunk.bytes <= bytes and chunk.last() <= upto:
                self._offset = some
                count += some
                size += chunk.bytes
                end = chunk.last()
                continue
            message = chunk.messages[self._offset]
            if message.sequence > upto or (count > 0 and size + message.charge > bytes):
                break
            self._offset += 1
            count += 1
            size += message.charge
            end = message.sequence
        return end, count, size

    def between(self, lo: i64, hi: i64, rows: i64, bytes: i64) -> list[Message]:
        """Return the first messages of (lo, hi], within rows and bytes but at least one; the messages stay."""
        if lo >= hi or lo >= self.newest():
            return []
        while not self.reach(lo):
            pass
        messages: list[Message] = []
        size: i64 = 0
        while len(messages) < rows:
            message = self.step()
            if message is None or message.sequence > hi or (messages and size + message.charge > bytes):
                break
            messages.append(message)
            size += message.charge
        return messages

    def take_through(self, sequence: i64, most: i64) -> list[Message]:
        """Remove the first messages up to a sequence, at most `most`."""
        messages: list[Message] = []
        emptied = 0
        while len(messages) < most:
            if emptied == len(self.chunks):
                self.chunks.clear()
                self.summed = 0
                emptied = 0
                if not self.returned and (not self.ready or self.ready[0].sequence > sequence):
                    break
                if not self._index_some():
                    break
            chunk = self.chunks[emptied]
            count = _offset_after(chunk.messages, sequence)
            left = most - len(messages)
            if count > left:
                count = left
            if count == 0:
                break
            taken = chunk.messages[:count]
            messages.extend(taken)
            if count < len(chunk.messages):
                del chunk.messages[:count]
                for message in taken:
                    chunk.bytes -= message.charge
                break
            emptied += 1
        del self.chunks[:emptied]
        self.summed = self.summed - emptied if self.summed > emptied else 0
        self.indexed -= len(messages)
        for message in messages:
            if isinstance(message, TrackedMessage):
                self._on_taken(message)
        return messages

    def take_between(self, lo: i64, hi: i64, most: i64) -> list[Message]:
        """Remove the first messages of (lo, hi], at most `most`."""
        chunks = self.chunks
        if lo <= 0 or (chunks and chunks[0].first() > lo):
            return self.take_through(hi, most)
        if lo >= hi or lo >= self.newest():
            return []
        while not self.reach(lo):
            pass
        messages: list[Message] = []
        at, offset = self._chunk, self._offset
        while len(messages) < most:
            if at == len(chunks) or offset == len(chunks[at].messages):
                if at + 1 < len(chunks):
                    at += 1
                    offset = 0
                    continue
                if not self.returned and (not self.ready or self.ready[0].sequence > hi):
                    break
                if not self._index_some():
                    break
                continue
            taken = self._take_of_chunk(at, offset, hi, most - len(messages))
            if not taken:
                break
            messages.extend(taken)
            if not chunks[at].messages:
                self._on_removed(at)
                del chunks[at]
                offset = 0
                if at == len(chunks) and at > 0:  # New messages may enter the chunk before.
                    at -= 1
                    offset = len(chunks[at].messages)
        return messages

    def _take_of_chunk(self, at: i64, offset: i64, hi: i64, most: i64) -> list[Message]:
        """Remove messages of a chunk from an offset on, up to a sequence."""
        chunk = self.chunks[at]
        count = _offset_after(chunk.messages, hi) - offset
        if count > most:
            count = most
        if count <= 0:
            return []
        taken = chunk.messages[offset : offset + count]
        del chunk.messages[offset : offset + count]
        for message in taken:
            chunk.bytes -= message.charge
            if isinstance(message, TrackedMessage):
                self._on_taken(message)
        self.indexed -= count
        if at > 0:
            self._on_changed(at)
        return taken

    # Places

    def add_place(self, place: Place) -> None:
        """Add the place of a scan that takes messages."""
        used = 0
        for other in self.places:
            used |= other.bit
        bit = 1
        while used & bit:
            bit <<= 1
        place.bit = bit
        self.places.append(place)

    def remove_place(self, place: Place) -> None:
        """Remove a place."""
        self.places.remove(place)
        for sequence in list(self.seen):
            self.seen[sequence] &= ~place.bit
        if not self.places:
            self.seen.clear()

    def _on_taken(self, message: Message) -> None:
        """Handle a message that is taken for delivery and may be requeued."""
        if isinstance(message, TrackedMessage) and message.expiry is not None:
            message.expiry.message = None
            message.expiry = None
            self.idle += 1
        bits = 0
        for place in self.places:
            if place.has_seen(message.sequence):
                bits |= place.bit
        if bits:
            if len(self.seen) >= SEEN_MAX:
                del self.seen[next(iter(self.seen))]
            self.seen[int(message.sequence)] = bits

    # As any line of ready messages

    @override
    def contiguous(self) -> deque[Message]:
        return NOTHING if self.indexed > 0 else super().contiguous()

    @override
    def available(self) -> i64:
        return self.indexed + len(self.ready) + len(self.returned) - self.tombstones

    @override
    def pull(self) -> Message:
        if self.indexed == 0:
            message = super().pull()
            if self.places:
                self._on_taken(message)
            return message
        chunk = self.chunks[0]
        message = chunk.take(0)
        if not chunk.messages:
            self._on_removed(0)
            del self.chunks[0]
        self.indexed -= 1
        self._on_taken(message)
        return message

    @override
    def next(self) -> Message | None:
        return self.chunks[0].messages[0] if self.indexed > 0 else super().next()

    @override
    def put_back(self, message: Message) -> None:
        sequence = message.sequence
        if self.indexed > 0 and sequence < self.last():
            self._insert(message)
            if isinstance(message, TrackedMessage) and message.expires != NEVER:
                self._list(message)
        else:
            super().put_back(message)
        self.news = True
        bits = self.seen.pop(int(sequence), 0)
        for place in self.places:
            if sequence <= place.position and not place.bit & bits:
                place.miss(sequence)

    @override
    def messages(self) -> list[Message]:
        messages = super().messages()
        for chunk in self.chunks:
            messages.extend(chunk.messages)
        return messages

    @override
    def clear(self) -> None:
        super().clear()
        self._clear_index()

    @override
    def hand_over(self, leftovers: DeferredFree, reroute: bool) -> None:
        for chunk in self.chunks:
            batch: list[Message | None] = []
            batch.extend(chunk.messages)
            leftovers.batches.append(batch)
        self._clear_index()
        super().hand_over(leftovers, reroute)

    def _clear_index(self) -> None:
        self.chunks.clear()
        self.summed = 0
        self.indexed = 0
        self.seen.clear()
        for place in self.places:
            place.forget()

    @override
    def take_due(self, now: float, ttl_s: float, offered: float) -> Message | None:
        if self.indexed > 0:
            message = self.next()
            expiring = self._first_expiring()
            if (
                expiring is not None
                and expiring is not message
                and expiring.sequence <= self.last()
                and expiring.expires <= now
                and expiring.arrived <= offered
                and message is not None
                and not (message.arrived + ttl_s <= now and message.arrived <= offered)
                and self._take_from_index(expiring)
            ):
                return expiring
        return super().take_due(now, ttl_s, offered)

    def _take_from_index(self, message: TrackedMessage) -> bool:
        """Remove an expired message from the index; returns False if it is not there."""
        self._seek(message.sequence - 1)
        if self.step() is not message:
            return False
        heapq.heappop(self.expiring)
        message.expiry = None
        self.take_stepped()
        self.seen.pop(int(message.sequence), None)
        return True


def indexed(ready: ReadyQueue) -> ReadyQueue:
    """Return ready messages with an index; an existing index is kept."""
    if isinstance(ready, Priorities):
        ready.replace_lines(_indexed_line)
        return ready
    return _indexed_line(ready)


def lines_of(ready: ReadyQueue) -> list[IndexedReadyQueue]:
    """Return the indexed lines of ready messages, the highest priority first."""
    if isinstance(ready, IndexedReadyQueue):
        return [ready]
    lines: list[IndexedReadyQueue] = []
    if isinstance(ready, Priorities):
        for line in ready.lines:
            if isinstance(line, IndexedReadyQueue):
                lines.append(line)
    return lines


def _indexed_line(line: ReadyQueue) -> ReadyQueue:
    return line if isinstance(line, IndexedReadyQueue) else IndexedReadyQueue(line)


def _offset_after(chunk: list[Message], sequence: i64) -> i64:
    """Return the index of the first message of a chunk after a sequence."""
    low: i64 = 0
    high: i64 = len(chunk)
    while low < high:
        middle = (low + high) >> 1
        if chunk[middle].sequence <= sequence:
            low = middle + 1
        else:
            high = middle
    return low
