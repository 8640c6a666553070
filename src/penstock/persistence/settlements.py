"""Settlement records of rows, the encoder of journal groups, and the audit of each queue's number of messages."""

from __future__ import annotations

from typing import Final, NamedTuple

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from penstock.core.journal.group import JournalGroup, SettledRange
from penstock.core.journal.group import SettlementRecord as Reference
from penstock.core.journal.journal import INDEX_BITS, Journal
from penstock.core.message import StoredMessage
from penstock.core.queue.queue import Queue
from penstock.errors import StoreError
from penstock.flow.work import Steps, WorkMeter
from penstock.persistence.metadata_records import encode_metadata
from penstock.persistence.rows import FORMAT, RowEncoder
from penstock.store.records import (
    STALE,
    UNKNOWN,
    BodyPiece,
    Damage,
    MessageRow,
    QueuePosition,
    RowBodies,
    SettlementRecord,
    StoreTransaction,
)
from penstock.store.tables import COMMITS


def encode_settlement(journal: Journal, group: JournalGroup, work: WorkMeter) -> Steps[bytes]:
    """Encode a group's settlements in rows that are not empty, in slices; returns b"" if there are none."""
    ranges = yield from _settled(journal, group.settled, work)
    returned = yield from _returned(journal, group.returned, work)
    numbers = sorted(ranges)
    numbers += [number for number in sorted(returned) if number not in ranges]
    if not numbers:
        return b""
    reference = Reference(group.number)
    out = BytesWriter()
    out.append(FORMAT)
    write_i32_be(out, i32(len(numbers)))
    for number in numbers:
        journal.add_settlement_record(reference, number)
        write_i64_be(out, number)
        places = _joined(ranges.get(number, []))
        write_i32_be(out, i32(len(places) // 2))
        for place in places:
            write_i32_be(out, i32(place))
        back = returned.get(number, [])
        write_i32_be(out, i32(len(back)))
        for message in back:
            write_i32_be(out, i32(message.index))
            write_i16_be(out, message.past)
        if work.spend((len(places) + len(back)) // SETTLED_A_UNIT + 1):
            yield
    return out.getvalue()


def _settled(journal: Journal, settled: list[SettledRange], work: WorkMeter) -> Steps[dict[int, list[SettledRange]]]:
    """Return the settled ranges of each remaining row."""
    by_row: dict[int, list[SettledRange]] = {}
    for at in range(0, len(settled), SETTLED_A_STEP):
        some = settled[at : at + SETTLED_A_STEP]
        for each in some:
            if each.row in journal.rows:
                by_row.setdefault(int(each.row), []).append(each)
        if work.spend(len(some) // SETTLED_A_UNIT):
            yield
    return by_row


def _joined(settled: list[SettledRange]) -> list[int]:
    """Return the settled positions of a row: first, count, first, count ..."""
    ranges: list[int] = []
    end: i64 = -1
    settled.sort(key=_place)
    for each in settled:
        if each.index == end:
            ranges[-1] += int(each.count)
        else:
            ranges.append(int(each.index))
            ranges.append(int(each.count))
        end = each.index + each.count
    return ranges


def _place(settled: SettledRange) -> int:
    return int(settled.index)


def _returned(journal: Journal, returned: set[int], work: WorkMeter) -> Steps[dict[int, list[StoredMessage]]]:
    """Return the redelivered messages of each remaining row that are still unsettled."""
    by_row: dict[int, list[StoredMessage]] = {}
    mask = (1 << INDEX_BITS) - 1
    for looked_at, code in enumerate(returned, 1):
        number = code >> INDEX_BITS
        group = journal.rows.get(number)
        message = None if group is None or group.live == 0 else group.messages[code & mask]
        if message is not None:
            by_row.setdefault(number, []).append(message)
        if looked_at % SETTLED_A_STEP == 0 and work.spend(SETTLED_A_STEP // SETTLED_A_UNIT):
            yield
    return by_row


class RowSettlements:
    """Settlements and redeliveries of one row's messages."""

    __slots__ = ("settled", "redelivered", "references")

    def __init__(self) -> None:
        self.settled: list[int] = []
        """Settled positions: first, count, first, count ..."""
        self.redelivered: dict[int, int] = {}
        """Earlier deliveries (`Message.past`) by position in the row."""
        self.references: list[Reference] = []

    def apply(self, group: JournalGroup) -> None:
        """Remove settled messages from a group, and set the earlier deliveries of the others."""
        ranges = self.settled
        for at in range(0, len(ranges), 2):
            for place in range(ranges[at], ranges[at] + ranges[at + 1]):
                message = group.messages[place]
                if message is not None:
                    message.group = None
                    group.messages[place] = None
                    group.live -= 1
                    group.bytes -= message.charge
        for place, past in self.redelivered.items():
            left = group.messages[place]
            if left is not None:
                left.past = i16(past)


def decode_settlement(number: int, data: bytes, fates: dict[int, RowSettlements]) -> None:
    """Decode a settlement record and add it to the settlements of its rows. Raises StoreError if it is malformed."""
    try:
        _decode(Reference(number), data, fates)
    except (IndexError, ValueError):
        raise StoreError(f"settlement record {number} of the store cannot be read: it is cut short") from None


def _decode(reference: Reference, data: bytes, fates: dict[int, RowSettlements]) -> None:
    if data[0] != FORMAT:
        raise StoreError(
            f"settlement record {reference.number} of the store has format {data[0]}, but this version reads {FORMAT}"
        )
    rows: i64 = i64(read_i32_be(data, 1))
    pos: i64 = 5
    while rows > 0:
        rows -= 1
        number = int(read_i64_be(data, pos))
        fate = fates.get(number)
        if fate is None:
            fate = RowSettlements()
            fates[number] = fate
        fate.references.append(reference)
        ranges: i64 = i64(read_i32_be(data, pos + 8))
        pos += 12
        while ranges > 0:
            ranges -= 1
            fate.settled.append(int(read_i32_be(data, pos)))
            fate.settled.append(int(read_i32_be(data, pos + 4)))
            pos += 8
        back: i64 = i64(read_i32_be(data, pos))
        pos += 4
        while back > 0:
            back -= 1
            fate.redelivered[int(read_i32_be(data, pos))] = int(read_i16_be(data, pos + 4))
            pos += 6


SETTLED_A_UNIT: Final = 4
SETTLED_A_STEP: Final = 256
"""Settlements that are encoded with one unit of work, and that are examined in a step."""
DEAD_ROW_WORK: Final = 1
PROGRESS_WORK: Final = 1
"""Units of work per deleted row, and per queue whose position is encoded."""
CHANGE_WORK: Final = 6
OCTETS_A_UNIT: Final = 256
"""Units of work per encoded change, and bytes of the change per unit."""


def encode_steps(
    journal: Journal, groups: list[JournalGroup], wall_offset: float, work: WorkMeter
) -> Steps[StoreTransaction]:
    """Return the transaction for these groups; `wall_offset` converts the broker's clock into wall time (seconds).

    Each step encodes some of the messages, settlements, deleted rows, queues or changes. All objects are encoded in
    their present state: later changes are in a later group as well.
    """
    commit = StoreTransaction()
    for write in journal.pieces.writing:
        commit.pieces.append(BodyPiece(int(write.number), int(write.index), len(write.octets), write.octets))
    commit.pieces_gone += journal.pieces.deleting
    for group in groups:
        yield from _encode_messages(commit, journal, group, wall_offset, work)
    for group in groups:
        for change in group.changes:
            record = encode_metadata(change)
            commit.metadata.append(record)
            if change.deleted and isinstance(change.subject, Queue) and change.subject.storage is not None:
                commit.positions_gone.append(int(change.subject.storage.number))
            if work.spend(CHANGE_WORK + (0 if record.data is None else len(record.data) // OCTETS_A_UNIT)):
                yield
    return commit


def _add_row(commit: StoreTransaction, encoder: RowEncoder, row: MessageRow) -> None:
    """Add a row, and record the bodies of its large messages."""
    commit.rows.append(row)
    if encoder.bodies:
        commit.row_bodies.append(RowBodies(row.number, tuple(dict.fromkeys(encoder.bodies))))


def _encode_messages(
    commit: StoreTransaction, journal: Journal, group: JournalGroup, wall_offset: float, work: WorkMeter
) -> Steps[None]:
    number = int(group.number)
    if group.has_row():
        encoder = RowEncoder(group, wall_offset)
        while not encoder.complete:
            if work.spend(encoder.step()):
                yield
        _add_row(commit, encoder, MessageRow(number, encoder.row(), 0, 0, len(group.messages), int(group.size)))
    for page in group.pages:
        encoder = RowEncoder(page.group, wall_offset)
        while not encoder.complete:
            if work.spend(encoder.step()):
                yield
        row = MessageRow(
            int(page.group.number),
            encoder.row(),
            int(page.storage.number),
            int(page.first),
            int(page.persistent_messages),
            int(page.persistent_bytes),
        )
        _add_row(commit, encoder, row)
    commit.pages_gone += group.purged_pages
    settlements = yield from encode_settlement(journal, group, work)
    if settlements:
        commit.settlements.append(SettlementRecord(number, settlements))
    for dead in group.dead:
        commit.rows_gone.append(int(dead.number))
        for reference in dead.settlement_records:
            reference.rows -= 1
            if reference.rows == 0:
                commit.settlements_gone.append(int(reference.number))
        if work.spend(len(dead.settlement_records) // SETTLED_A_UNIT + DEAD_ROW_WORK):
            yield
    commit.settlements_gone += group.stale
    for progress in group.progressed:
        storage = progress.storage
        if not storage.is_deleted():
            commit.positions.append(
                QueuePosition(int(storage.number), int(storage.tail()), int(storage.announce()), int(progress.messages))
            )
        if work.spend(PROGRESS_WORK):
            yield


LISTED: Final = 5
"""Most queues named in one sentence; the others are counted."""


class Loss(NamedTuple):
    """Loss of one queue's messages."""

    number: int
    """Number of the queue; 0 for queues of which only messages are left."""
    queue: str
    """Displayed name of the queue."""
    least: int
    most: int
    """Least and most lost messages; `most` is UNKNOWN if there is no bound."""
    had: int
    """Number of messages before the damage; UNKNOWN if not recorded."""
    back: int
    """Number of settled messages that reappear, beyond the messages that offset lost ones."""

    def __str__(self) -> str:
        """Return the loss as a clause."""
        clauses = [f"has lost {self._lost()}"] if self.most != 0 else []
        if self.back:
            clauses.append(f"gets {_counted(self.back)} back that had been settled")
        return f"{self.queue} {' and '.join(clauses)}"

    def _lost(self) -> str:
        of = "" if self.had == UNKNOWN else f" of {_counted(self.had)}"
        if self.most == UNKNOWN:
            return f"at least {_counted(self.least)}" if self.least else "an unknown number of messages"
        if self.least == self.most:
            return f"{self.least:,}{of}" if of else _counted(self.least)
        return f"at least {self.least:,} and at most {self.most:,}{of or ' messages'}"


class MessageAudit:
    """Expected and found messages of queues, by queue number."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        """Displayed names of declared queues."""
        self.expected: dict[int, int] = {}
        """Numbers from positions; UNKNOWN for a store whose version lacks them."""
        self.found: dict[int, int] = {}
        self.strays: int = 0
        """Persistent messages of queues without declaration and position."""

    def name(self, number: int, vhost: str, queue: str) -> None:
        """Record the declaration of a queue."""
        self.names[number] = f"queue '{queue}' in vhost '{vhost}'"

    def expect(self, number: int, messages: int) -> None:
        """Record the expected number of messages."""
        self.expected[number] = messages

    def find(self, number: int, messages: int) -> None:
        """Add messages found."""
        self.found[number] = self.found.get(number, 0) + messages

    def total(self) -> int:
        """Return the number of messages found in declared queues."""
        return sum(messages for number, messages in self.found.items() if number in self.names)

    def corrected(self, positions: list[QueuePosition]) -> list[QueuePosition]:
        """Return the positions that must be rewritten so that they match the messages found."""
        return [
            position._replace(messages=self.found.get(position.queue, 0))
            for position in positions
            if position.messages != self.found.get(position.queue, 0)
        ]

    def losses(self, damaged: list[Damage]) -> list[Loss]:
        """Return the losses of all queues that lost messages, or may have, through this damage."""
        judge = _LossEstimator(damaged)
        losses: list[Loss] = []
        for number in sorted({*self.names, *self.expected}):
            name, had = self.names.get(number), self.expected.get(number, UNKNOWN)
            loss = judge.queue(number, name, had, self.found.get(number, 0))
            if loss.most != 0 or loss.back != 0:
                losses.append(loss)
        strays = judge.strays(self.strays)
        losses += [] if strays is None else [strays]
        return losses + [
            Loss(0, "the end of the log, of whatever queues,", 0, each.messages, UNKNOWN, 0)
            for each in damaged
            if each.table == COMMITS and each.messages
        ]


def summed_up(losses: list[Loss]) -> str:
    """Return a clause about the lost messages by queue; queues beyond `LISTED` are counted."""
    if not losses:
        return "no message is lost"
    clauses = [str(loss) for loss in losses[:LISTED]]
    if len(losses) > LISTED:
        clauses.append(f"{len(losses) - LISTED:,} more of them have lost messages or get some back")
    return ", ".join(clauses)


class _LossEstimator:
    """Estimator of the loss of queues from the damage."""

    def __init__(self, damaged: list[Damage]) -> None:
        self._rows = [each for each in damaged if each.table == "rows"]
        self._tables = {each.table for each in damaged}
        stale = {each.table for each in damaged if each.why == STALE}
        self._is_mixed = "notes" in self._tables or "rows" in stale
        """True if settled messages may be among those found."""
        self._positions_current = "positions" not in stale
        """True if positions are up to date."""

    def queue(self, number: int, name: str | None, expected: int, count: int) -> Loss:
        """Estimate the loss of one queue; `name` is None if it has no declaration."""
        had = expected if self._positions_current else UNKNOWN
        if name is None:  # Messages without a queue reach no consumer.
            return Loss(number, f"a queue whose declaration is lost (number {number})", max(had, 0), had, had, 0)
        held = self._held(number)
        if had == UNKNOWN:
            return Loss(number, name, 0, held, UNKNOWN, 0)
        missing, back = max(had - count, 0), max(count - had, 0)
        if missing == 0 and not self._rows:
            return Loss(number, name, 0, 0, had, back)
        if not self._is_mixed:
            return Loss(number, name, missing, missing, had, back)
        most = had if held == UNKNOWN else min(held, had)
        return Loss(number, name, missing, max(most, missing), had, back)

    def strays(self, count: int) -> Loss | None:
        """Estimate the loss of messages whose queue is unknown; None if those queues were deleted."""
        if "things" not in self._tables or "positions" not in self._tables or not (count or self._rows):
            return None
        most = UNKNOWN if self._rows else count
        return Loss(0, "queues of which no declaration is left, if there were any,", 0, most, UNKNOWN, 0)

    def _held(self, number: int) -> int:
        """Return the most messages of a queue that the damaged rows held; UNKNOWN if a row does not have the number."""
        held = 0
        for each in self._rows:
            if each.queue in (0, number):
                if each.messages == 0:
                    return UNKNOWN
                held += each.messages
        return held


def _counted(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
