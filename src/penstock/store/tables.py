"""Tables of the store and the checksums of their records.

The checksum (column `seal`) is the crc32 of a record and of its table's name. It reveals records whose octets have
changed on the disk, and misplaced records. Only the data of a row or piece has a checksum of its own, which the
record's checksum covers: so the rest of a page's row, or of a piece, can be verified without its data.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from penstock.store.damage import Damage
from penstock.store.records import (
    PIECE_BITS,
    UNKNOWN,
    BodyPiece,
    MessageRow,
    MetadataRecord,
    QueuePosition,
    RowBodies,
    SettlementRecord,
)

ROW: Final = struct.Struct("<3s6q")
SETTLEMENT: Final = struct.Struct("<4sq")
METADATA: Final = struct.Struct("<5s3q")
POSITION: Final = struct.Struct("<8s3q")
COUNTED: Final = struct.Struct("<8s4q")
PIECE: Final = struct.Struct("<5s4q")
ROW_BODIES_HEAD: Final = struct.Struct("<6s2q")
BODY_NUMBER: Final = struct.Struct("<q")


class ChecksumError(Exception):
    """Record whose checksum or form is wrong; the text names the reason."""


class Table(NamedTuple):
    """Table: its name, columns and record decoder."""

    name: str
    one: str
    """Name of one record in a sentence."""
    key: str
    """Key column, SQLite's rowid."""
    columns: tuple[str, ...]
    """All columns, the key first."""
    read: Callable[[tuple[Any, ...]], Any]
    """Decode a record from its columns, in their order. Raises ChecksumError."""
    id: int
    """Its number in the table of sums, which never changes."""
    head: str = "data"
    """Expression for its data where only the records themselves are read."""


def encoded(text: str) -> bytes:
    """Encode a text for the store; damaged text that was read as octets is encoded as it was."""
    return text.encode(errors="surrogateescape")


def decoded(octets: bytes) -> str:
    """Decode a text from the store."""
    return octets.decode(errors="surrogateescape")


def checksum_row(row: MessageRow, crc: int) -> int:
    """Return the checksum of a row whose data has this checksum."""
    return zlib.crc32(ROW.pack(b"row", row.number, row.queue, row.first, row.messages, row.size, crc))


def checksum_settlement(record: SettlementRecord) -> int:
    """Return the checksum of a settlement record."""
    return zlib.crc32(record.data, zlib.crc32(SETTLEMENT.pack(b"note", record.number)))


def checksum_metadata(number: int, kind: bytes, key: bytes, data: bytes) -> int:
    """Return the checksum of a metadata record at this number in the order of declarations."""
    head = METADATA.pack(b"thing", number, len(kind), len(key))
    return zlib.crc32(data, zlib.crc32(head + kind + key))


def checksum_position(position: QueuePosition) -> int:
    """Return the checksum of a position; without a number of messages that of version 1."""
    if position.messages == UNKNOWN:
        return zlib.crc32(POSITION.pack(b"position", *position[:3]))
    return zlib.crc32(COUNTED.pack(b"position", *position))


def checksum_piece(piece: BodyPiece, crc: int) -> int:
    """Return the checksum of a piece whose data has this checksum."""
    return zlib.crc32(PIECE.pack(b"piece", piece.key(), piece.body, piece.size, crc))


def checksum_row_bodies(number: int, bodies: int, data: bytes) -> int:
    """Return the checksum of the bodies of a row: their count and their encoded numbers."""
    return zlib.crc32(data, zlib.crc32(ROW_BODIES_HEAD.pack(b"bodies", number, bodies)))


def encoded_bodies(record: RowBodies) -> bytes:
    """Encode the numbers of the bodies of a row."""
    return b"".join([BODY_NUMBER.pack(body) for body in record.bodies])


def read_head(columns: tuple[Any, ...]) -> MessageRow:
    """Decode a row without its data, from all columns or all but the data. Raises ChecksumError."""
    number, queue, first, messages, size, crc, seal = columns[:7]
    row = MessageRow(number, b"", queue, first, messages, size)
    _judge(lambda: checksum_row(row, crc) == seal)
    return row


def read_row(columns: tuple[Any, ...]) -> MessageRow:
    """Decode a row; its data is empty if it was not read (None). Raises ChecksumError."""
    head = read_head(columns)
    crc, data = columns[5], columns[7]
    if data is None:
        return head
    _judge(lambda: zlib.crc32(data) == crc)
    return head._replace(data=data)


def read_settlement(columns: tuple[Any, ...]) -> SettlementRecord:
    """Decode a settlement record. Raises ChecksumError."""
    number, seal, data = columns
    record = SettlementRecord(number, data)
    _judge(lambda: checksum_settlement(record) == seal)
    return record


def read_metadata(columns: tuple[Any, ...]) -> MetadataRecord:
    """Decode a metadata record. Raises ChecksumError."""
    number, kind, key, seal, data = columns
    _judge(lambda: checksum_metadata(number, kind, key, data) == seal)
    return MetadataRecord(decoded(kind), decoded(key), data)


def read_position(columns: tuple[Any, ...]) -> QueuePosition:
    """Decode a position, of version 1 too. Raises ChecksumError."""
    position = QueuePosition(*columns[:-1])
    _judge(lambda: checksum_position(position) == columns[-1])
    return position


def read_piece(columns: tuple[Any, ...]) -> BodyPiece:
    """Decode a piece; its data is empty if it was not read (None). Raises ChecksumError."""
    number, body, size, crc, seal, data = columns
    _judge(lambda: number >> PIECE_BITS == body)
    piece = BodyPiece(body, number & ((1 << PIECE_BITS) - 1), size, b"")
    _judge(lambda: checksum_piece(piece, crc) == seal)
    if data is None:
        return piece
    _judge(lambda: len(data) == size and zlib.crc32(data) == crc)
    return piece._replace(data=data)


def read_row_bodies(columns: tuple[Any, ...]) -> RowBodies:
    """Decode the bodies of a row. Raises ChecksumError."""
    number, bodies, seal, data = columns
    _judge(lambda: checksum_row_bodies(number, bodies, data) == seal and len(data) == bodies * BODY_NUMBER.size)
    return RowBodies(number, tuple(body for (body,) in BODY_NUMBER.iter_unpack(data)))


def _judge(is_right: Callable[[], bool]) -> None:
    try:
        if is_right():
            return
    except (TypeError, struct.error):
        pass  # A flipped bit has changed the type of a value.
    raise ChecksumError("its checksum is wrong")


METADATA_RECORDS: Final = Table(
    "things", "thing", "number", ("number", "kind", "key", "seal", "data"), read_metadata, 1
)
POSITIONS: Final = Table(
    "positions", "position", "queue", ("queue", "tail", "delivered", "messages", "seal"), read_position, 2
)
SETTLEMENTS: Final = Table("notes", "note", "number", ("number", "seal", "data"), read_settlement, 3)
ROWS: Final = Table(
    "rows",
    "row",
    "number",
    ("number", "queue", "first", "messages", "size", "crc", "seal", "data"),
    read_row,
    4,
    "CASE queue WHEN 0 THEN data END",
)
PIECES: Final = Table(
    "pieces",
    "piece",
    "number",
    ("number", "body", "size", "crc", "seal", "data"),
    read_piece,
    6,
    "CASE WHEN size < 0 THEN data END",
)
ROW_BODIES: Final = Table(
    "row_bodies", "bodies of row", "number", ("number", "bodies", "seal", "data"), read_row_bodies, 7
)
FIRST_TABLES: Final = (METADATA_RECORDS, POSITIONS, SETTLEMENTS, ROWS)
"""Tables of schema version 1."""
COMMITS_ID: Final = 5
"""Number in the table of sums of the counts of transactions, their messages, and how often the store was opened."""
TABLES: Final = (METADATA_RECORDS, POSITIONS, SETTLEMENTS, PIECES, ROW_BODIES, ROWS)
"""All tables, in the order in which a check reads them."""


def damage_of(table: Table, columns: tuple[Any, ...], why: str) -> Damage:
    """Return the damage report of a record with these columns; rows may lack their data."""
    if table is PIECES and type(columns[0]) is int:
        number = columns[0]
        where = f"piece {number & ((1 << PIECE_BITS) - 1)} of body {number >> PIECE_BITS}"
        return Damage(where, why, table=table.name)
    if table is not ROWS:
        return Damage(f"{table.one} {columns[0]}", why, table=table.name)
    try:
        head = read_head(columns)
    except ChecksumError:
        return Damage(f"row {columns[0]}", why, table=table.name)
    what = f"row {head.number}" if head.queue == 0 else f"page {head.number} of queue number {head.queue}"
    return Damage(what, why, head.queue, head.messages, table.name)
