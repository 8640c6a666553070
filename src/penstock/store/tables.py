"""The four tables of the store and how each of their records is sealed.

A *seal* is the crc32 of everything in a record, and of which table it is in, so that a record whose octets have changed
on the disk, or that has come to a place where it does not belong, is known. Only the data of a row has a checksum of
its own (which the seal covers): of a page one may know all but the data without reading it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from penstock.store.records import UNKNOWN, MessageRow, MetadataRecord, QueuePosition, SettlementRecord
from penstock.store.store import Damage

ROW: Final = struct.Struct("<3s6q")
SETTLEMENT: Final = struct.Struct("<4sq")
METADATA: Final = struct.Struct("<5s3q")
POSITION: Final = struct.Struct("<8s3q")
COUNTED: Final = struct.Struct("<8s4q")


class ChecksumError(Exception):
    """A record that is not what was written; the text says why."""


class Table(NamedTuple):
    """One table: what its records are called, and how they are read."""

    name: str
    one: str
    """What one of its records is called in a sentence."""
    key: str
    """The column with its number, which is SQLite's rowid."""
    columns: tuple[str, ...]
    """All of them, the key first."""
    read: Callable[[tuple[Any, ...]], Any]
    """Make a record of the columns, in their order. Raises Unreadable."""


def encoded(text: str) -> bytes:
    """Return a text as it is kept; what is no text but has been read as one is kept as it was."""
    return text.encode(errors="surrogateescape")


def decoded(octets: bytes) -> str:
    """Return the text that was kept so."""
    return octets.decode(errors="surrogateescape")


def checksum_row(row: MessageRow, crc: int) -> int:
    """Return the seal of a row whose data has this checksum."""
    return zlib.crc32(ROW.pack(b"row", row.number, row.queue, row.first, row.messages, row.size, crc))


def checksum_settlement(note: SettlementRecord) -> int:
    """Return the seal of a note."""
    return zlib.crc32(note.data, zlib.crc32(SETTLEMENT.pack(b"note", note.number)))


def checksum_metadata(number: int, kind: bytes, key: bytes, data: bytes) -> int:
    """Return the seal of a thing that stands at this number in the order of declarations."""
    head = METADATA.pack(b"thing", number, len(kind), len(key))
    return zlib.crc32(data, zlib.crc32(head + kind + key))


def checksum_position(position: QueuePosition) -> int:
    """Return the seal of a position; of one whose messages nobody has counted it is that of form 1."""
    if position.messages == UNKNOWN:
        return zlib.crc32(POSITION.pack(b"position", *position[:3]))
    return zlib.crc32(COUNTED.pack(b"position", *position))


def read_head(columns: tuple[Any, ...]) -> MessageRow:
    """Return a row without its data, of all columns or all but the data. Raises Unreadable."""
    number, queue, first, messages, size, crc, seal = columns[:7]
    row = MessageRow(number, b"", queue, first, messages, size)
    _judge(lambda: checksum_row(row, crc) == seal)
    return row


def read_row(columns: tuple[Any, ...]) -> MessageRow:
    """Return a row; its data is empty where none was read (None). Raises Unreadable."""
    head = read_head(columns)
    crc, data = columns[5], columns[7]
    if data is None:
        return head
    _judge(lambda: zlib.crc32(data) == crc)
    return head._replace(data=data)


def read_settlement(columns: tuple[Any, ...]) -> SettlementRecord:
    """Return a note. Raises Unreadable."""
    number, seal, data = columns
    note = SettlementRecord(number, data)
    _judge(lambda: checksum_settlement(note) == seal)
    return note


def read_metadata(columns: tuple[Any, ...]) -> MetadataRecord:
    """Return a thing. Raises Unreadable."""
    number, kind, key, seal, data = columns
    _judge(lambda: checksum_metadata(number, kind, key, data) == seal)
    return MetadataRecord(decoded(kind), decoded(key), data)


def read_position(columns: tuple[Any, ...]) -> QueuePosition:
    """Return a position, of form 1 too. Raises Unreadable."""
    position = QueuePosition(*columns[:-1])
    _judge(lambda: checksum_position(position) == columns[-1])
    return position


def _judge(is_right: Callable[[], bool]) -> None:
    try:
        if is_right():
            return
    except (TypeError, struct.error):
        pass  # A flipped bit has made a number of what was none, or the other way round.
    raise ChecksumError("its checksum is wrong")


ROWS: Final = Table(
    "rows", "row", "number", ("number", "queue", "first", "messages", "size", "crc", "seal", "data"), read_row
)
SETTLEMENTS: Final = Table("notes", "note", "number", ("number", "seal", "data"), read_settlement)
METADATA_RECORDS: Final = Table("things", "thing", "number", ("number", "kind", "key", "seal", "data"), read_metadata)
POSITIONS: Final = Table(
    "positions", "position", "queue", ("queue", "tail", "delivered", "messages", "seal"), read_position
)
TABLES: Final = (METADATA_RECORDS, POSITIONS, SETTLEMENTS, ROWS)
"""In the order in which they are numbered in the table of sums; see schema.py."""


def damage_of(table: Table, columns: tuple[Any, ...], why: str) -> Damage:
    """Return what is to be told of a record whose columns are these; those of a row may be without its data."""
    if table is not ROWS:
        return Damage(f"{table.one} {columns[0]}", why, table=table.name)
    try:
        head = read_head(columns)
    except ChecksumError:
        return Damage(f"row {columns[0]}", why, table=table.name)
    what = f"row {head.number}" if head.queue == 0 else f"page {head.number} of queue number {head.queue}"
    return Damage(what, why, head.queue, head.messages, table.name)
