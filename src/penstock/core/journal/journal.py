"""What must outlive the broker: gathered in groups here, written by others.

Theory of operation. What happens to durable things goes into the *open* group: messages that came, messages of earlier
groups that were settled or came back, queues that have come further, things that were declared. A group is closed when
the store has written the one before it, or when it is large; `take` gives the closed ones away to be written, all of
each in one transaction, and `written` says that they are on the disk. Until then everybody who was promised something
waits: a producer's confirmations, a client's declare-ok.

A message knows its group and its place in it. Settled while its group is open it is simply left out: it is never
written. Afterwards, its group being *sealed*, that counts how many are left; when none is, the row goes. A group
of which little is left for long is *sparse*: what is left moves into the open group, as if it had come just now, so
that nothing keeps a row of a megabyte for one message.

Nothing is ever in two groups that are not written together, so what belongs together (a transaction's parts, a letter
that leaves one queue for another) is never half there: groups are closed between the broker's steps only.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.gates.disk import Disk
from penstock.core.journal.group import (
    DurabilityListener,
    DurableChanges,
    JournalGroup,
    MessageRun,
    MetadataChange,
    QueueStorage,
    SettlementRecord,
)
from penstock.errors import ResourceError

if TYPE_CHECKING:
    from penstock.core.message import StoredMessage
    from penstock.core.queue.page_io import PageRead

GROUP_BYTES: Final = 1024 * 1024
"""Bytes (charges) at which a group is closed and the next one opened: a row of the store is about as large."""
TAKEN_BYTES: Final = 8 * 1024 * 1024
"""Bytes of groups that are written in one transaction, unless a single one is larger."""
PLACE_BITS: Final = 24
"""A place in a group has no more bits than these."""
GROUP_MESSAGES: Final = 1 << (PLACE_BITS - 1)
"""Messages at which a group is closed; charges alone keep it far below."""
SPARSE_SHARE: Final = 4
"""A group of which less than this part (a quarter) is left in bytes is sparse."""
SETTLEMENT_RECORDS_MAX: Final = 64
"""A row about which there are more notes than this is written anew as well."""
GATHERED_MANY: Final = 65_536
"""Settlements, returns, changes and places of messages that have left, in one group, from which on it is looked which
of them still mean anything."""
CHANGES_A_GROUP: Final = 500
"""Changes of what is declared, set or blocked that are encoded for one transaction, about: a few milliseconds."""
CHANGES_MAX: Final = 10_000
"""Changes that may wait while the store cannot be written; whoever would declare more is refused."""
PATIENCE: Final = 64
"""Groups that a sparse one is left alone for: what is being consumed in order is gone by then."""
MOVED_BYTES: Final = 256 * 1024
"""Most that moves out of sparse groups for one transaction."""


class Journal:
    """The groups of one broker."""

    def __init__(self, promises: DurableChanges, disk: Disk) -> None:
        self.open = JournalGroup(1)
        self.disk = disk
        disk.journal = self
        self.durable_changes = promises
        self.recovering: bool = False
        """What happens now comes from the store: it is there already."""
        self.next_queue: i64 = 1
        """The number of the next queue that is kept; never reused."""
        self.rows: dict[int, JournalGroup] = {}
        """Sealed groups with messages left in them; and those of which nothing is left, until that is being written."""
        self.reads: list[PageRead] = []
        """Pages that are wanted back."""
        self.since: i64 = 1
        """Rows with smaller numbers are from before the broker was restarted: what is transient in them is gone."""
        self._last: i64 = 1
        """The last number that was given to a row or a note."""
        self.writing: list[JournalGroup] = []
        self._gathered_most: i64 = GATHERED_MANY
        self._closed: deque[JournalGroup] = deque()
        self._sparse: deque[JournalGroup] = deque()

    def number_from(self, number: i64) -> None:
        """Number groups from here on, above all that the store knows; nothing has been gathered yet."""
        self.open.number = number
        self._last = number
        self.since = number

    def take_row(self) -> i64:
        """Return the number of another row."""
        self._last += 1
        return self._last

    def take_reads(self) -> list[PageRead]:
        """Take what is wanted from the store."""
        reads = self.reads
        if reads:
            self.reads = []
        return reads

    def restore(self, group: JournalGroup) -> None:
        """A row has come back from the store, with what is left of it."""
        group.sealed = True
        group.written = True
        self.rows[int(group.number)] = group
        if group.live == 0:
            self.delete_row(group)
        elif group.bytes * SPARSE_SHARE < group.size:
            self._grows_sparse(group)

    # What happens

    def add(self, kept: QueueStorage, message: StoredMessage) -> None:
        """A message has come into a queue."""
        group = self.open
        message.group = group
        message.index = len(group.messages)
        group.messages.append(message)
        group.live += 1
        group.bytes += message.charge
        group.urgent = True
        self.durable_changes.durable_ops += 1
        runs = group.runs
        if not runs or runs[len(runs) - 1].kept is not kept:
            runs.append(MessageRun(kept, message.index))
            self.mark_progress(kept)

    def drop(self, kept: QueueStorage, message: StoredMessage) -> None:
        """A message has left its queue for good."""
        group = message.group
        if group is None:
            return
        message.group = None
        group.messages[message.index] = None
        group.live -= 1
        group.bytes -= message.charge
        self.durable_changes.durable_ops += 1
        if not group.sealed:
            return
        if message.envelope.persistent:
            kept.rows -= 1
            self.mark_progress(kept)
        if group.live > 0:
            self.open.record_settled(group.number, message.index)
            if group.compact_at == 0 and group.bytes * SPARSE_SHARE < group.size:
                self._grows_sparse(group)
        else:
            self.delete_row(group)

    def on_requeued(self, message: StoredMessage) -> None:
        """A message has come back from a consumer; how often, it knows itself."""
        group = message.group
        if group is not None and group.sealed:
            self.open.returned.add(int(group.number) << PLACE_BITS | int(message.index))

    def mark_progress(self, kept: QueueStorage) -> None:
        """A queue has come further: its last sequence, the last one that was with a consumer, or how much is left."""
        if kept.progress_marked is not self.open and kept.lasting:
            kept.progress_marked = self.open
            self.open.progressed.append(kept)

    def change(self, thing: object) -> None:
        """Something that lasts was declared, or has changed."""
        self._change(thing, False)

    def forget(self, thing: object) -> None:
        """It is no more."""
        self._change(thing, True)

    def check_writable(self) -> None:
        """Let somebody declare or change something that lasts; what deletes need not ask.

        Raises ResourceError (506) while the store cannot be written and `CHANGES_MAX` changes wait for it.
        """
        if not self.disk.is_failing():
            return
        waiting: i64 = 0
        for group in [self.open, *self._closed, *self.writing]:
            waiting += len(group.changes) + len(group.pages_gone)
        if waiting >= CHANGES_MAX:
            raise ResourceError(
                f"{int(waiting):,} changes wait for a store that cannot be written, and no more than {CHANGES_MAX:,} "
                f"may; try again when it can: {self.disk.fault.reason}"
            )

    def _change(self, thing: object, gone: bool) -> None:
        if not self.recovering:
            self.open.changes.append(MetadataChange(thing, gone))
            self.require_flush()

    def require_flush(self) -> None:
        """What has just been done is answered when it is on the disk."""
        self.open.urgent = True
        self.durable_changes.durable_ops += 1
        self.durable_changes.durable_declarations += 1

    def wait(self, awaiting: DurabilityListener) -> None:
        """Have somebody told when what has happened until now is on the disk."""
        self.open.listeners.append(awaiting)
        self.open.urgent = True

    def cancel_wait(self, awaiting: DurabilityListener) -> None:
        """Tell this one nothing: it is no more, and a disk that fails for long must not keep it."""
        for group in [self.open, *self._closed, *self.writing]:
            if group.listeners:
                group.listeners = [each for each in group.listeners if each is not awaiting]

    def take_number(self) -> i64:
        """Return the number of a new queue."""
        number = self.next_queue
        self.next_queue += 1
        return number

    # Writing

    def has_urgent(self) -> bool:
        """Tell whether something should be written at once."""
        return self.open.urgent or len(self._closed) > 0

    def unwritten(self) -> i64:
        """Return the bytes (charges) of the messages that are not on the disk yet."""
        total = self.open.bytes + self.open.paged
        for group in self._closed:
            total += group.bytes + group.paged
        for group in self.writing:
            total += group.bytes + group.paged
        return total

    def is_idle(self) -> bool:
        """Tell whether there is nothing to write, now or later."""
        return not self._closed and not self.writing and self.open.is_empty()

    def step(self) -> None:
        """Between two steps of the broker: a group that is large enough is closed."""
        if (
            self.open.bytes + self.open.paged >= GROUP_BYTES
            or len(self.open.messages) >= GROUP_MESSAGES
            or (len(self.open.changes) >= CHANGES_A_GROUP and self._parts_changes())
        ):
            self._close()
        elif self.open.pending_records() >= self._gathered_most:
            self._compact()

    def _parts_changes(self) -> bool:
        """Tell whether many changes go into several groups: not while the store cannot be written, for then of what
        changes again and again only the last state is to wait."""
        return len(self._closed) < CHANGES_MAX // CHANGES_A_GROUP and not self.disk.is_failing()

    def _compact(self) -> None:
        """Forget what means nothing any more: while the store cannot be written the same may happen for ever."""
        group = self.open
        group.compact()
        group.settled = [each for each in group.settled if self._has_left(int(each.row))]
        group.returned = {code for code in group.returned if self._has_left(code >> PLACE_BITS)}
        latest: dict[object, MetadataChange] = {}
        for change in group.changes:
            latest.pop(change.subject, None)
            latest[change.subject] = change
        group.changes = list(latest.values())
        self._gathered_most = max(2 * group.pending_records(), GATHERED_MANY)

    def _has_left(self, number: int) -> bool:
        """Tell whether anything is left of a row; if not, this group says so, or an earlier."""
        row = self.rows.get(number)
        return row is not None and row.live > 0

    def take(self) -> list[JournalGroup]:
        """Take the groups that are to be written next, in one transaction; none while others are being written."""
        if self.writing:
            return []
        self._move_sparse()
        if not self.open.is_empty():
            self._close()
        size: i64 = 0
        changes = 0
        while self._closed and (
            not self.writing
            or (size + self._closed[0].bytes + self._closed[0].paged <= TAKEN_BYTES and changes < CHANGES_A_GROUP)
        ):
            group = self._closed.popleft()
            size += group.bytes + group.paged
            changes += len(group.changes)
            self.writing.append(group)
            for dead in group.dead:
                del self.rows[int(dead.number)]
        return self.writing

    def written(self) -> None:
        """What was taken is on the disk: those who wait for it may go on."""
        groups = self.writing
        self.writing = []
        for group in groups:
            awaiting = group.listeners
            group.on_written()
            for each in awaiting:
                each.on_durable(group)

    def _close(self) -> None:
        group = self.open
        group.seal()
        if group.live > 0:
            self.rows[int(group.number)] = group
        self._closed.append(group)
        self.open = JournalGroup(self.take_row())
        self._gathered_most = GATHERED_MANY

    # Sparse groups

    def noted(self, note: SettlementRecord, number: int) -> None:
        """The store has, or will have, a note about a row."""
        group = self.rows[number]
        group.settlement_records.append(note)
        note.rows += 1
        if group.compact_at == 0 and len(group.settlement_records) > SETTLEMENT_RECORDS_MAX:
            self._grows_sparse(group)

    def _grows_sparse(self, group: JournalGroup) -> None:
        group.compact_at = self.open.number + PATIENCE
        self._sparse.append(group)

    def _move_sparse(self) -> None:
        """Move what is left in sparse groups whose time has come."""
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
        """Let what is left of a row come anew; the row goes in the same transaction."""
        runs = group.runs
        for at in range(len(runs)):
            end: i64 = runs[at + 1].start if at + 1 < len(runs) else len(group.messages)
            for message in group.messages[runs[at].start : end]:
                if message is not None:
                    if message.envelope.persistent:
                        runs[at].kept.rows -= 1
                    self.add(runs[at].kept, message)
        group.live = 0
        group.bytes = 0
        self.delete_row(group)

    def delete_row(self, group: JournalGroup) -> None:
        """Nothing is left of a row: it goes, with the next transaction."""
        if group.written:
            group.empty()
        self.open.dead.append(group)
