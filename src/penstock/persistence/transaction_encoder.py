"""Encoder of journal groups into one transaction of the store."""

from __future__ import annotations

from typing import Final

from penstock.core.journal.group import JournalGroup
from penstock.core.journal.journal import Journal
from penstock.core.queue.queue import Queue
from penstock.flow.work import Steps, WorkMeter
from penstock.persistence.metadata_records import encode_metadata
from penstock.persistence.row_encoder import encode_row
from penstock.persistence.settlement_codec import encode_settlement
from penstock.store.records import (
    BodyPiece,
    MessageRow,
    QueuePosition,
    RowBodies,
    SettlementRecord,
    StoreTransaction,
)

MESSAGES_A_UNIT: Final = 4
CHARGE_A_UNIT: Final = 4096
"""Messages, and bytes (charges) of messages, that are encoded with one unit of work."""
CHANGE_WORK: Final = 6
OCTETS_A_UNIT: Final = 256
"""Units of work per encoded change, and octets of it per unit."""


def encode_steps(
    journal: Journal, groups: list[JournalGroup], wall_offset: float, work: WorkMeter
) -> Steps[StoreTransaction]:
    """Return the transaction for these groups; `wall_offset` converts the broker's clock into wall time (seconds).

    Each step encodes whole groups, whose size is bounded (core/journal/journal.py), or some changes. Everything is
    encoded in its present state: later changes are in a later group as well.
    """
    commit = StoreTransaction()
    for write in journal.pieces.writing:
        commit.pieces.append(BodyPiece(int(write.body.number), int(write.index), len(write.octets), write.octets))
    commit.pieces_gone += journal.pieces.deleting
    for group in groups:
        _encode_messages(commit, journal, group, wall_offset)
        if work.spend(len(group.messages) // MESSAGES_A_UNIT + (group.size + group.paged) // CHARGE_A_UNIT):
            yield
    for group in groups:
        for change in group.changes:
            record = encode_metadata(change)
            commit.metadata.append(record)
            if change.deleted and isinstance(change.subject, Queue) and change.subject.storage is not None:
                commit.positions_gone.append(int(change.subject.storage.number))
            if work.spend(CHANGE_WORK + (0 if record.data is None else len(record.data) // OCTETS_A_UNIT)):
                yield
    return commit


def _encode_row(commit: StoreTransaction, group: JournalGroup, wall_offset: float) -> bytes:
    """Encode a row, and record the bodies of its large messages."""
    bodies: list[int] = []
    data = encode_row(group, wall_offset, bodies)
    if bodies:
        commit.row_bodies.append(RowBodies(int(group.number), tuple(dict.fromkeys(bodies))))
    return data


def _encode_messages(commit: StoreTransaction, journal: Journal, group: JournalGroup, wall_offset: float) -> None:
    number = int(group.number)
    if group.has_row():
        data = _encode_row(commit, group, wall_offset)
        commit.rows.append(MessageRow(number, data, 0, 0, len(group.messages), int(group.size)))
    for page in group.pages:
        commit.rows.append(
            MessageRow(
                int(page.group.number),
                _encode_row(commit, page.group, wall_offset),
                int(page.storage.number),
                int(page.first),
                int(page.persistent_messages),
                int(page.persistent_bytes),
            )
        )
    commit.pages_gone += group.purged_pages
    settlements = encode_settlement(journal, group)
    if settlements:
        commit.settlements.append(SettlementRecord(number, settlements))
    for dead in group.dead:
        commit.rows_gone.append(int(dead.number))
        for reference in dead.settlement_records:
            reference.rows -= 1
            if reference.rows == 0:
                commit.settlements_gone.append(int(reference.number))
    commit.settlements_gone += group.stale
    for progress in group.progressed:
        storage = progress.storage
        if not storage.is_deleted():
            commit.positions.append(
                QueuePosition(int(storage.number), int(storage.tail()), int(storage.announce()), int(progress.messages))
            )
