"""The journal: durable operations, gathered in groups that the store writes (group commit).

Theory of operation. The *open* group takes all durable operations: new messages, settlements and requeues of messages
in earlier groups, progress of queues, metadata changes. A group of about a row's size is *full*, and another one is
open; full groups and the open one are *gathered*. Gathered groups are sealed together when the store is ready for the
next transaction, or when they are large. `take` returns sealed groups to be written in one transaction, and `written`
reports that they are on disk. Replies that promise durability wait until then: publisher confirms, declare-ok.

A message knows its group and its index there. A message settled while its group is gathered is never written. In a
*sealed* group settlements reduce the number of messages left; a row without messages is deleted. A group that has had
few messages for long is *sparse*: its messages move into the open group, so that a single message does not retain a row
of a megabyte.

Gathered operations count for the client being served (`serve`) until a transaction takes them: see write_shares.py.

Related operations are always in groups that are written together: the parts of a transaction, or the move of a dead
letter between two queues. Groups become full, and are sealed, only between the broker's steps.

A *series* (`Series`) is for operations of many steps that belong together: the rows of a promoted batch.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.gates.disk import Backlog, Disk
from penstock.core.journal.group import (
    GROUP_OPEN,
    DurabilityListener,
    DurableChanges,
    GroupState,
    JournaledPieces,
    JournaledQueue,
    JournalGroup,
    MessageRun,
    MetadataChange,
    QueueProgress,
    SettlementRecord,
)
from penstock.core.journal.write_shares import CHANGE_BYTES, WriteListener, WriteShare, WriteShares
from penstock.core.large_bodies import LargeBodies
from penstock.core.large_content import body_of
from penstock.core.message import Message, StoredMessage
from penstock.errors import ResourceError


class Removal:
    """The removal of one purge."""

    __slots__ = ("change", "listeners")

    def __init__(self, change: i64) -> None:
        self.change: i64 = change
        """Number of the durable change that the removal belongs to."""
        self.listeners: list[DurabilityListener] = []
        """Listeners that wait for the end of the removal, and then for the disk."""


class Removals:
    """The unfinished removals of one journal."""

    def __init__(self, changes: DurableChanges) -> None:
        self._changes = changes
        self._under_way: dict[Removal, None] = {}
        """Removals in the order of their changes."""

    def begin(self) -> Removal:
        """Begin a removal after its change was recorded."""
        removal = Removal(self._changes.durable_declarations)
        self._under_way[removal] = None
        return removal

    def finish(self, removal: Removal) -> None:
        """Forget a removal whose messages are all removed; `Journal.finish_removal` notifies its listeners."""
        del self._under_way[removal]

    def wait(self, listener: DurabilityListener, before: i64) -> bool:
        """Wait for the latest removal of a change after the first `before` ones; False if there is none."""
        for removal in reversed(self._under_way):
            if removal.change > before:
                removal.listeners.append(listener)
                return True
            break
        return False

    def is_awaited_by(self, listener: DurabilityListener) -> bool:
        """Return whether a listener waits for a removal, and not yet for the disk."""
        return any(listener in removal.listeners for removal in self._under_way)

    def cancel_wait(self, listener: DurabilityListener) -> None:
        """Remove a closed listener."""
        for removal in self._under_way:
            removal.listeners = [each for each in removal.listeners if each is not listener]

    def pending(self) -> bool:
        """Return whether any removal is unfinished."""
        return len(self._under_way) > 0


NONE: Final = 0


class Series:
    """The series that a journal records, if any, and the end of the last one."""

    def __init__(self, sealed: deque[JournalGroup]) -> None:
        self._sealed = sealed
        """The journal's sealed groups that are not taken yet."""
        self._first: i64 = NONE
        """Number of the series' first group; NONE while no series is recorded."""

    def begin(self, group: JournalGroup) -> bool:
        """Begin with the open group. Returns False, without effect, if the open group ends the last series."""
        if self.has_open_end():
            return False
        self._first = group.number
        return True

    def end(self, group: JournalGroup) -> None:
        """End with the open group; the series is written next."""
        self._first = NONE
        group.urgent = True
        if self.has_open_end() and group.is_empty():
            self._sealed[len(self._sealed) - 1].tied = False

    def is_recorded(self) -> bool:
        """Return whether a series is being recorded."""
        return self._first != NONE

    def has_open_end(self) -> bool:
        """Return whether the open group belongs to a series that has ended."""
        return self._first == NONE and len(self._sealed) > 0 and self._sealed[len(self._sealed) - 1].tied

    def leaves_some(self) -> bool:
        """Return whether a sealed group is before the series, and may be written."""
        return len(self._sealed) > 0 and not self.holds(self._sealed[0])

    def holds(self, group: JournalGroup) -> bool:
        """Return whether a group must not be written yet."""
        return self._first != NONE and group.number >= self._first


GROUP_BYTES: Final = 1024 * 1024
"""Bytes (charges) at which a group is full: about the size of a row in the store."""
TAKEN_BYTES: Final = 8 * 1024 * 1024
"""Bytes of groups in one store transaction, unless a single group is larger. Gathered groups are sealed at this
size.
"""
INDEX_BITS: Final = 24
"""Bits of an index in a group."""
GROUP_MESSAGES: Final = 1 << (INDEX_BITS - 1)
"""Messages at which a group is full; charges usually fill it far earlier."""
SPARSE_SHARE: Final = 4
"""A group with less than this part (a quarter) of its bytes left is sparse."""
SETTLEMENT_RECORDS_MAX: Final = 64
"""Settlement records about a row above which it is rewritten."""
GATHERED_MANY: Final = 65_536
"""Settlements, requeues, changes and removed messages in one group above which obsolete entries are dropped."""
NUMBERS_AT_ONCE: Final = 1000
"""Queue numbers reserved at once, so that not every declaration records the next number."""
CHANGES_A_GROUP: Final = 500
"""Metadata changes encoded for one transaction, approximately: a few milliseconds."""
CHANGES_MAX: Final = 10_000
"""Most changes that may wait while the store cannot be written; further declarations are refused."""
PATIENCE: Final = 64
"""Groups after which a sparse group is moved: a group consumed in order is empty by then."""
NOT_MOVING: Final = -1
MOVED_BYTES: Final = 256 * 1024
"""Most bytes moved out of sparse groups for one transaction."""


class Journal(Backlog):
    """The journal groups of one broker."""

    def __init__(self, promises: DurableChanges, disk: Disk, large: LargeBodies | None = None) -> None:
        self.open = JournalGroup(1)
        self.disk = disk
        disk.backlog = self
        self.durable_changes = promises
        self.recovering: bool = False
        """True during recovery: operations come from the store and are not recorded."""
        self.next_queue: i64 = 1
        """Number of the next stored queue; never reused."""
        self.rows: dict[int, JournalGroup] = {}
        """Sealed groups with messages left, and empty ones until their deletion is being written."""
        self.removals = Removals(promises)
        self.pieces = JournaledPieces(LargeBodies() if large is None else large)
        self.since: i64 = 1
        """First row number since the last start: transient messages of earlier rows are gone."""
        self._last: i64 = 1
        """Last number given to a row or a settlement record."""
        self.writing: list[JournalGroup] = []
        self.shares = WriteShares()
        """Gathered bytes by user and connection."""
        self.recorded: i64 = 0
        """Bytes (charges) recorded since the start: messages, and `CHANGE_BYTES` for each change."""
        self._served: WriteShare | None = None
        """Share of the client being served; None without one."""
        self._served_from: i64 = 0
        """Bytes that were recorded when the service of this client began."""
        self._gathered_most: i64 = GATHERED_MANY
        self._full: list[JournalGroup] = []
        """Full groups that are not sealed, in order. Pages and series are never among them."""
        self._sealed: deque[JournalGroup] = deque()
        self.series = Series(self._sealed)
        self._sparse: deque[JournalGroup] = deque()
        self.behind: list[WriteListener] = []
        """Queues that deliver nothing until their retained messages are written, or the store cannot be written."""
        self.retained: i64 = 0
        """Bytes (charges) of retained messages that are not written yet."""
        self.last_move: i64 = 0
        """Number of the last unwritten group that moves messages (`begin_move`); 0 without one."""
        self._move_from: i64 = NOT_MOVING
        """Index in the open group of the first message of a move; NOT_MOVING between moves."""

    def number_from(self, number: i64) -> None:
        """Start numbering above all numbers in the store; no group may have content yet."""
        self.open.number = number
        self._last = number
        self.since = number

    def take_row(self) -> i64:
        """Return the number of a new row."""
        self._last += 1
        return self._last

    def restore(self, group: JournalGroup) -> None:
        """Restore a row from the store, with its remaining messages."""
        group.restore()
        self.rows[int(group.number)] = group
        if group.live == 0:
            self.delete_row(group)
        elif group.bytes * SPARSE_SHARE < group.size:
            self._grows_sparse(group)

    # Operations

    def add(self, storage: JournaledQueue, message: StoredMessage) -> None:
        """Record a new message of a queue."""
        group = self.open
        message.group = group
        message.index = len(group.messages)
        group.messages.append(message)
        group.live += 1
        group.bytes += message.charge
        self.recorded += message.charge
        if message.charge >= GROUP_BYTES:
            self.count_elsewhere(message.content)
        self.durable_changes.durable_ops += 1
        runs = group.runs
        if not runs or runs[len(runs) - 1].storage is not storage:
            runs.append(MessageRun(storage, message.index))
            self.mark_progress(storage)

    def count_elsewhere(self, content: bytes) -> None:
        """Count the body of a large message of the open group, which is written in pieces."""
        body = body_of(content)
        if body is not None:
            self.open.elsewhere += body.octets
            self.recorded -= body.octets

    def drop(self, storage: JournaledQueue, message: StoredMessage) -> None:
        """Record that a message has left its queue for good."""
        group = message.group
        if not isinstance(group, JournalGroup):
            return
        message.group = None
        group.messages[message.index] = None
        group.live -= 1
        group.bytes -= message.charge
        self.durable_changes.durable_ops += 1
        if group.state == GROUP_OPEN:
            return
        if message.envelope.persistent:
            storage.rows -= 1
            self.mark_progress(storage)
        if group.live > 0:
            self.open.record_settled(group.number, message.index)
            if group.compact_at == 0 and group.bytes * SPARSE_SHARE < group.size:
                self._grows_sparse(group)
        else:
            self.delete_row(group)

    def is_stored(self, message: Message) -> bool:
        """Return whether a crash now would bring a message back, at its present position or where it was before."""
        if not isinstance(message, StoredMessage) or not message.envelope.persistent:
            return False
        group = message.group
        if group is None:
            return False
        return group.state != GROUP_OPEN or (isinstance(group, JournalGroup) and group.has_moved(message))

    def begin_move(self) -> None:
        """Begin the move of a message for which `is_stored` was true before it left its queue: what enters queues until
        `end_move` is the moved message.
        """
        self._move_from = len(self.open.messages)

    def end_move(self) -> None:
        """End a move: deliveries of the moved message wait until the open group is written."""
        first = self._move_from
        self._move_from = NOT_MOVING
        if first < len(self.open.messages):
            self.open.note_moved(first)
            self.last_move = self.open.number

    def is_moving(self) -> bool:
        """Return whether a message is moved now, between `begin_move` and `end_move`."""
        return self._move_from != NOT_MOVING

    def on_requeued(self, message: StoredMessage) -> None:
        """Record a requeued message, which carries its own redelivery count."""
        group = message.group
        if group is not None and group.state != GROUP_OPEN:
            self.open.returned.add(int(group.number) << INDEX_BITS | int(message.index))

    def mark_progress(self, storage: JournaledQueue) -> None:
        """Record a queue's progress: last sequence, last delivered sequence, number of messages left."""
        if storage.progress_marked is not self.open and storage.durable:
            storage.progress_marked = self.open
            self.open.progressed.append(QueueProgress(storage))

    def change(self, subject: object) -> None:
        """Record a durable object that was declared or changed."""
        self._change(subject, False)

    def forget(self, subject: object) -> None:
        """Record the deletion of a durable object."""
        self._change(subject, True)

    def check_writable(self) -> None:
        """Check that a durable declaration or change is possible; deletions need no check.

        Raises ResourceError (506) while the store cannot be written and `CHANGES_MAX` changes wait for it.
        """
        if not self.disk.is_failing():
            return
        waiting: i64 = 0
        for group in self._unwritten_groups():
            waiting += len(group.changes) + len(group.purged_pages)
        if waiting >= CHANGES_MAX:
            raise ResourceError(
                f"{int(waiting):,} changes wait for a store that cannot be written; the limit is {CHANGES_MAX:,}. "
                f"Try again when the store works: {self.disk.fault.reason}"
            )

    def _change(self, subject: object, gone: bool) -> None:
        if not self.recovering:
            self.open.changes.append(MetadataChange(subject, gone))
            self.recorded += CHANGE_BYTES
            self.require_flush()

    def require_flush(self) -> None:
        """Require a flush: a client waits for the durability of the last operation."""
        self.open.urgent = True
        self.durable_changes.durable_ops += 1
        self.durable_changes.durable_declarations += 1

    def wait(self, awaiting: DurabilityListener) -> None:
        """Register a listener for the durability of everything until now."""
        self.open.listeners.append(awaiting)
        self.open.urgent = True

    def finish_removal(self, removal: Removal) -> None:
        """Record the end of a removal: listeners wait for the disk now."""
        self.removals.finish(removal)
        self.open.urgent = True
        for listener in removal.listeners:
            self.wait(listener)

    def wait_for_change(self, awaiting: DurabilityListener, before: i64) -> None:
        """Like `wait`, for the changes after the first `before` changes.

        If a change is a large purge, wait for the end of its removal first.
        """
        if not self.removals.wait(awaiting, before):
            self.wait(awaiting)

    def cancel_wait(self, awaiting: DurabilityListener) -> None:
        """Remove a closed listener, so that a failing disk does not retain it."""
        self.removals.cancel_wait(awaiting)
        for group in self._unwritten_groups():
            if group.listeners:
                group.listeners = [each for each in group.listeners if each is not awaiting]

    def take_number(self) -> i64:
        """Return the number of a new queue; the journal records the end of each block of reserved numbers."""
        number = self.next_queue
        self.next_queue += 1
        if number % NUMBERS_AT_ONCE == 1:
            self.change(self)
        return number

    # Writing

    def has_urgent(self) -> bool:
        """Return whether a group should be written at once."""
        if self._full or (not self.series.is_recorded() and (self.open.urgent or self.shares.has_waiting())):
            return True
        return self.series.leaves_some() or self.pieces.is_urgent()

    @override
    def unwritten(self) -> i64:
        total = self.pieces.unwritten()
        for group in self._unwritten_groups():
            total += _to_write(group)
        return total

    @override
    def on_failure(self) -> None:
        self.shares.release()
        behind = self.behind
        self.behind = []
        for each in behind:
            each.on_taken()

    def left_behind(self) -> i64:
        """Return the bytes in memory of messages that left their queues while they waited for the store."""
        total: i64 = 0
        for group in [*self._sealed, *self.writing]:
            if group.size > group.bytes:
                total += group.size - group.bytes
        return total

    def _unwritten_groups(self) -> list[JournalGroup]:
        return [self.open, *self._full, *self._sealed, *self.writing]

    def is_idle(self) -> bool:
        """Return whether there are no writes, now or later."""
        if self._full or self._sealed or self.writing:
            return False
        return self.open.is_empty() and self.pieces.is_idle()

    def step(self) -> None:
        """End a full group, and seal groups that are large or end a series, between two steps of the broker."""
        group = self.open
        if group.bytes + group.paged >= GROUP_BYTES or len(group.messages) >= GROUP_MESSAGES:
            gathered: i64 = group.bytes + sum([each.bytes for each in self._full])
            if gathered >= TAKEN_BYTES or group.pages or self.series.is_recorded():
                self._seal()
            else:
                self._full.append(group)
                self._open_next()
        elif (len(group.changes) >= CHANGES_A_GROUP and self._parts_changes()) or self.series.has_open_end():
            self._seal()
        elif group.pending_records() >= self._gathered_most:
            self._compact()

    # The client being served

    def serve(self, share: WriteShare | None) -> WriteShare | None:
        """Record for another client from now on; None for none. Returns the share of the previous client."""
        served = self._served
        recorded = self.recorded + self.pieces.large.recorded
        if served is not None and recorded > self._served_from:
            self.shares.count(served, recorded - self._served_from, self.open.number)
        self._served = share
        self._served_from = recorded
        return served

    def served_user(self) -> str:
        """Return the user of the client being served; empty without one."""
        return "" if self._served is None else self._served.user

    def must_wait(self, share: WriteShare) -> bool:
        """Return whether a share must wait for the next transactions: it is used up, and does not wait already.

        While the store cannot be written no share waits.
        """
        return share.listener is None and self.shares.is_over(share) and not self.disk.is_failing()

    def wait_if_over(self, share: WriteShare, listener: WriteListener) -> None:
        """Make a share wait for the next transactions, if it must; `listener` is called when they have taken enough."""
        if self.must_wait(share):
            self.shares.wait(share, listener)

    def begin_series(self) -> bool:
        """Begin a series with the open group; earlier groups are written before the series. Returns False as
        `Series.begin` does.
        """
        if self._full:
            self._seal()
        return self.series.begin(self.open)

    def _parts_changes(self) -> bool:
        """Return whether many changes are split into several groups.

        Not while the store cannot be written: then only the last state of an object that changes repeatedly waits.
        """
        return len(self._sealed) < CHANGES_MAX // CHANGES_A_GROUP and not self.disk.is_failing()

    def _compact(self) -> None:
        """Drop obsolete operations, which may accumulate without end while the store cannot be written."""
        group = self.open
        group.compact()
        group.settled = [each for each in group.settled if self._has_left(int(each.row))]
        group.returned = {code for code in group.returned if self._has_left(code >> INDEX_BITS)}
        latest: dict[object, MetadataChange] = {}
        for change in group.changes:
            latest.pop(change.subject, None)
            latest[change.subject] = change
        group.changes = list(latest.values())
        self._gathered_most = max(2 * group.pending_records(), GATHERED_MANY)

    def _has_left(self, number: int) -> bool:
        """Return whether a row has messages left; if not, this group or an earlier group records the deletion."""
        row = self.rows.get(number)
        return row is not None and row.live > 0

    def take(self) -> list[JournalGroup]:
        """Take the groups of the next transaction; none while others are being written."""
        if self.writing:
            return []
        if not self.series.is_recorded():
            self._move_sparse()
            if self.shares.has_waiting():
                self.pieces.large.write_everything()
            if self._full or not self.open.is_empty() or self.pieces.has_work() or self.shares.has_waiting():
                self._seal()
        size: i64 = 0
        changes = 0
        while self._sealed and (
            not self.writing
            or self.writing[len(self.writing) - 1].tied
            or (size + self._sealed[0].size + self._sealed[0].paged <= TAKEN_BYTES and changes < CHANGES_A_GROUP)
        ):
            if self.series.holds(self._sealed[0]):
                break
            group = self._sealed.popleft()
            size += group.size + group.paged
            changes += len(group.changes)
            self.writing.append(group)
            self.pieces.delete(group.bodies_gone)
            for dead in group.dead:
                del self.rows[int(dead.number)]
        self.pieces.take()
        if self.writing:
            self.shares.take(self.writing[len(self.writing) - 1].number)
        return self.writing

    def written(self) -> None:
        """Handle that the taken groups are on disk: notify listeners."""
        groups = self.writing
        self.writing = []
        if groups and self.last_move <= groups[len(groups) - 1].number:
            self.last_move = 0
        self.pieces.written()
        for group in groups:
            awaiting = group.listeners
            group.on_written()
            for each in awaiting:
                each.on_durable(group)

    def _seal(self) -> None:
        """Seal gathered groups. They are written in one transaction, because their settlements have changed rows among
        them.
        """
        last = self.open
        for group in [*self._full, last]:
            group.seal()
            group.tied = group is not last or self.series.is_recorded()
            if group.live > 0:
                self.rows[int(group.number)] = group
            self._sealed.append(group)
        last.bodies_gone = self.pieces.large.take_unreferenced()
        self._full.clear()
        self._open_next()

    def _open_next(self) -> None:
        self.open = JournalGroup(self.take_row())
        self._gathered_most = GATHERED_MANY

    # Sparse groups

    def add_settlement_record(self, record: SettlementRecord, number: int) -> None:
        """Register a settlement record about a row."""
        group = self.rows[number]
        group.settlement_records.append(record)
        record.rows += 1
        if group.compact_at == 0 and len(group.settlement_records) > SETTLEMENT_RECORDS_MAX:
            self._grows_sparse(group)

    def _grows_sparse(self, group: JournalGroup) -> None:
        group.compact_at = self.open.number + PATIENCE
        self._sparse.append(group)

    def _move_sparse(self) -> None:
        """Move the messages of sparse groups that are due."""
        left: i64 = MOVED_BYTES
        sparse = self._sparse
        while sparse and left > 0:
            group = sparse[0]
            if group.live > 0:
                if group.compact_at > self.open.number:
                    return
                left -= group.bytes
                self._move(group)
            sparse.popleft()

    def _move(self, group: JournalGroup) -> None:
        """Move the messages of a row into the open group; the row is deleted in the same transaction."""
        runs = group.runs
        for at in range(len(runs)):
            end: i64 = runs[at + 1].start if at + 1 < len(runs) else len(group.messages)
            for message in group.messages[runs[at].start : end]:
                if message is not None:
                    if message.envelope.persistent:
                        runs[at].storage.rows -= 1
                    has_moved = group.has_moved(message)
                    self.add(runs[at].storage, message)
                    if has_moved:  # The row is not written: the store cannot be written since long.
                        self.open.note_moved(message.index)
                        self.last_move = self.open.number
        group.live = 0
        group.bytes = 0
        self.delete_row(group)

    def delete_row(self, group: JournalGroup) -> None:
        """Delete a row without messages with the next transaction."""
        if group.state == GroupState.WRITTEN:
            group.empty()
        self.open.dead.append(group)


def _to_write(group: JournalGroup) -> i64:
    """Return the bytes that a group adds to the store, without its pieces."""
    total = group.bytes + group.paged - group.elsewhere
    return total if total > 0 else 0


def numbers_end(number: int) -> int:
    """Return the first unreserved number of a queue after this one."""
    return ((number - 1) // NUMBERS_AT_ONCE + 1) * NUMBERS_AT_ONCE + 1
