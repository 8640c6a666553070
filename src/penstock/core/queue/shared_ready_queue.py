"""The ready messages of a queue with cursors, which may have consumers as well (decision 65).

Theory of operation. A plan acquires messages. Ready messages up to the end of the furthest plan (`acquired`) belong to
the cursors: every cursor gets them, and no consumer does. Later messages belong to the first taker, a consumer or a
plan. Messages that consumers have, or that are requeued after a plan has passed them, belong to consumers for good:
they are `aside`, where no cursor sees them. So a planned range never gains or loses a message.

After a restart, a message that was unacknowledged is ready again. Such a message must not enter a range that was
planned without it. So a plan records the sequences below its end that it does not have, as ranges (`gaps`), and every
record of a cursor includes them. A gap is removed once all acquired messages up to it have left the store (`dropped`):
messages found there then belong to consumers.

A lease pins a range of sequences for a batch read (`pins`). Messages that all cursors have settled (`passed`) leave the
queue, except messages in pinned ranges: these are only for the leases, and leave with the last lease.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.journal.group import DurabilityListener, JournalGroup
from penstock.core.message import Message, StoredMessage
from penstock.core.queue.deferred_free import DeferredFree
from penstock.core.queue.indexed_ready_queue import IndexedReadyQueue
from penstock.core.queue.ready_queue import NOTHING, ReadyQueue
from penstock.flow.level import UNLIMITED

GAPS_MAX: Final = 4096
"""Most gaps of one queue; at the bound a plan ends before the next gap."""


class SharedReadyQueue(ReadyQueue):
    """Ready messages as consumers see them: without messages that belong to cursors. Cursors use `line`."""

    def __init__(self, line: IndexedReadyQueue) -> None:
        super().__init__()
        self.line = line
        self.aside = ReadyQueue()
        """Messages for consumers alone, older than the others."""
        self.acquired: i64 = 0
        """The end of the furthest plan."""
        self.dropped: i64 = 0
        """All acquired messages up to here have left the store."""
        self.gaps: list[tuple[int, int]] = []
        """First and last sequences between `dropped` and `acquired` that do not belong to the cursors, in order."""
        self.passed: i64 = 0
        """Every cursor has settled up to here. Earlier messages left in `line` are pinned, or about to leave."""
        self.pins: list[tuple[int, int]] = []
        """Ranges (lo, hi] that leases pin, in order and without overlaps."""

    # Acquiring

    def acquire(self, end: i64, may_come_back: bool, stored: bool) -> None:
        """Acquire the ready messages up to a sequence.

        `may_come_back`: consumers have older messages, or had them; `stored`: a restart may restore these.
        """
        if end <= self.acquired:
            return
        if not may_come_back:
            self.gaps.clear()
        elif stored:
            self.gaps.extend(self._gaps_up_to(end, GAPS_MAX)[0])
        self.acquired = end

    def end_of_gaps(self, end: i64) -> i64:
        """Return the end of a plan that keeps the number of gaps within its bound, at most `end`."""
        if end <= self.acquired:
            return end
        return self._gaps_up_to(end, GAPS_MAX - len(self.gaps))[1]

    def _gaps_up_to(self, end: i64, most: i64) -> tuple[list[tuple[int, int]], i64]:
        """Return the sequences that are not ready between `acquired` and `end`, as ranges; and the end of these
        ranges.
        """
        gaps: list[tuple[int, int]] = []
        at = self.acquired
        line = self.line
        while not line.reach(at):
            pass
        while at < end:
            message = line.step()
            following = end + 1 if message is None or message.sequence > end else message.sequence
            if following > at + 1:
                if len(gaps) >= most:
                    return gaps, at
                gaps.append((int(at) + 1, int(following) - 1))
            at = following
            if at < end:
                passed = _pass_run(line, end)
                at = passed if passed > at else at
        return gaps, end

    def pass_over(self, end: i64, leaves: bool, stored: bool) -> None:
        """Acquire up to a sequence, for no cursor. `leaves`: the ready messages up to there stay with the consumers."""
        line = self.line
        if end <= self.acquired:
            return
        if leaves:
            if stored:
                self.gaps.append((int(self.acquired) + 1, int(end)))
            if line.count_through(self.acquired)[0] == 0:
                for message in line.take_through(end, UNLIMITED):
                    self.aside.append(message)
            else:
                self._move_aside(end)
        self.acquired = end

    def _move_aside(self, end: i64) -> None:
        line = self.line
        while True:
            while not line.reach(self.acquired):
                pass
            message = line.step()
            if message is None or message.sequence > end:
                return
            line.take_stepped()
            self.aside.append(message)

    # Pins

    def set_pins(self, ranges: list[tuple[int, int]]) -> None:
        """Pin exactly these ranges (lo, hi], which may overlap."""
        pins: list[tuple[int, int]] = []
        for lo, hi in sorted(ranges):
            if hi <= lo:
                continue
            if pins and lo <= pins[len(pins) - 1][1]:
                first, last = pins.pop()
                pins.append((first, hi if hi > last else last))
            else:
                pins.append((lo, hi))
        self.pins = pins

    def free_through(self, start: i64, end: i64) -> i64:
        """Return the end of the messages after `start` that may leave, if everything up to `end` is settled: the next
        pin.
        """
        for lo, hi in self.pins:
            if hi > start:
                free = start if lo <= start else i64(lo)
                return free if free < end else end
        return end

    def take_passed(self, most: i64) -> list[Message]:
        """Remove up to `most` messages that every cursor has settled and no lease pins."""
        taken: list[Message] = []
        start: i64 = 0
        for lo, hi in self.pins:
            if len(taken) == most or start >= self.passed:
                return taken
            if lo > start:
                end = i64(lo) if lo < self.passed else self.passed
                taken += self.line.take_between(start, end, most - len(taken))
            start = hi
        if len(taken) < most and start < self.passed:
            taken += self.line.take_between(start, self.passed, most - len(taken))
        return taken

    def has_passed(self) -> bool:
        """Return whether `take_passed` would remove a message."""
        start: i64 = 0
        for lo, hi in self.pins:
            if lo > start and self._has_between(start, lo):
                return True
            start = hi
        return self._has_between(start, UNLIMITED)

    def _has_between(self, lo: i64, hi: i64) -> bool:
        """Return whether there is a settled message in (lo, hi]."""
        end = hi if hi < self.passed else self.passed
        return len(self.line.between(lo, end, 1, UNLIMITED)) > 0

    def release_acquired(self) -> None:
        """Return messages that cursors had acquired and not settled to the consumers: only leases are left, which
        acquire none.
        """
        messages = [message for message in self.aside.messages() if message.sequence > self.passed]
        if messages:
            settled = [message for message in self.aside.messages() if message.sequence <= self.passed]
            self.aside.clear()
            for message in settled:
                self.aside.append(message)
            for message in messages:
                self.line.put_back(message)
        self.acquired = self.passed
        self.gaps = []

    def dissolve(self) -> IndexedReadyQueue:
        """Return all messages in one line, once no cursor is left."""
        line = self.line
        if self.aside.available() > 0:
            messages = self.aside.messages()
            self.aside.clear()
            for message in messages:  # Inserted one by one: sorting a long line would take a turn.
                line.put_back(message)
        return line

    # The store

    def restore_gaps(self, acquired: i64, numbers: list[int]) -> None:
        """Restore from the record of a cursor: `dropped`, and the ends of gaps."""
        if acquired > self.acquired:
            self.acquired = acquired
        if numbers:
            if numbers[0] > self.dropped:
                self.dropped = numbers[0]
            known = {*self.gaps, *[(numbers[at], numbers[at + 1]) for at in range(1, len(numbers) - 1, 2)]}
            self.gaps = sorted(known)

    def gap_numbers(self) -> list[int]:
        """Return the ends of gaps for the record of a cursor; empty if no message may come back."""
        if not self.gaps and self.dropped == 0:
            return []
        return [int(self.dropped), *[number for gap in self.gaps for number in gap]]

    def drop_gaps(self, dropped: i64) -> None:
        """Forget gaps up to the sequence where all acquired messages have left the store."""
        if dropped > self.dropped:
            self.dropped = dropped
            self.gaps = [gap for gap in self.gaps if gap[1] > dropped]

    def settled_end(self, settled: i64) -> i64:
        """Return the sequence up to which no acquired message is left, if all cursors have settled up to `settled`."""
        first = self.line.next()
        return settled if first is None or first.sequence > settled else first.sequence - 1

    def _is_aside(self, sequence: i64) -> bool:
        """Return whether a restored message belongs to the consumers."""
        if sequence <= self.dropped:
            return True
        at = bisect_right(self.gaps, (int(sequence), int(UNLIMITED))) - 1
        return at >= 0 and self.gaps[at][1] >= sequence

    # As any line of ready messages

    @override
    def ready_for(self, priority: i64) -> deque[Message]:
        return self.line.ready_for(priority)

    @override
    def contiguous(self) -> deque[Message]:
        return self.aside.contiguous() if self.aside.available() > 0 else NOTHING

    @override
    def available(self) -> i64:
        return self.aside.available() + self.line.available() - self.held_back()

    @override
    def held_back(self) -> i64:
        return self.line.count_through(self.acquired)[0]

    @override
    def has_expiring(self) -> bool:
        return self.line.has_expiring() or self.aside.has_expiring()

    @override
    def append(self, message: Message) -> None:
        self.line.append(message)

    @override
    def extend(self, messages: list[StoredMessage]) -> None:
        if self.gaps or self.dropped > 0:
            self.aside.extend([message for message in messages if self._is_aside(message.sequence)])
            messages = [message for message in messages if not self._is_aside(message.sequence)]
        self.line.extend(messages)

    @override
    def pull(self) -> Message:
        if self.aside.available() > 0:
            return self.aside.pull()
        message = self.next()
        assert message is not None, "nothing is available"
        self.line.take_stepped()
        return message

    @override
    def next(self) -> Message | None:
        if self.aside.available() > 0:
            return self.aside.next()
        while not self.line.reach(self.acquired):
            pass
        return self.line.step()

    @override
    def oldest_arrival(self) -> float:
        aside, line = self.aside.oldest_arrival(), self.line.oldest_arrival()
        return aside if aside < line else line

    @override
    def put_back(self, message: Message) -> None:
        if message.sequence <= self.acquired:
            self.aside.put_back(message)
        else:
            self.line.put_back(message)

    @override
    def messages(self) -> list[Message]:
        return [*self.aside.messages(), *self.line.messages()]

    @override
    def clear(self) -> None:
        self.aside.clear()
        self.line.clear()

    @override
    def hand_over(self, leftovers: DeferredFree, reroute: bool) -> None:
        self.aside.hand_over(leftovers, reroute)
        self.line.hand_over(leftovers, reroute)

    @override
    def due(self, ttl_s: float) -> float:
        return self.line.due(ttl_s)

    @override
    def take_due(self, now: float, ttl_s: float, offered: float) -> Message | None:
        return self.line.take_due(now, ttl_s, offered)

    @override
    def begin_sweep(self) -> bool:
        return self.is_swept() and self.line.begin_sweep()

    @override
    def is_swept(self) -> bool:
        return self.line.is_swept()

    @override
    def sweep(self, most: i64) -> i64:
        return self.line.sweep(most)


class DropsWritten(DurabilityListener):
    """A listener for the group that removes settled messages from the store."""

    def __init__(self, shared: SharedReadyQueue, dropped: i64) -> None:
        self.shared = shared
        self.dropped: i64 = dropped

    @override
    def on_durable(self, group: JournalGroup) -> None:
        self.shared.drop_gaps(self.dropped)


def _pass_run(line: IndexedReadyQueue, upto: i64) -> i64:
    """Move from a message to the end of its chunk if no sequence is missing between; returns the last one, or 0."""
    chunk = line.chunks[line._chunk]
    rest = len(chunk.messages) - line._offset
    if chunk.last() > upto or chunk.last() - chunk.messages[line._offset - 1].sequence != rest:
        return 0
    line._offset += rest
    return chunk.last()
