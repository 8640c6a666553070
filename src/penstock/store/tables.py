"""Tables of the store and the checksums of their records.

The checksum (column `seal`) is the crc32 of a record and of its table's name. The checksum reveals records whose bytes
have changed on the disk, and misplaced records. Only the data of a row or piece has a checksum of its own, which the
record's checksum covers: so the rest of a page's row, or of a piece, can be verified without its data. Instead of its
data, a large row or piece may have the place of the data in the data file (data_file.py), which the checksum covers
too.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from penstock.store.records import (
    PIECE_BITS,
    UNKNOWN,
    BodyPiece,
    Damage,
    MessageRow,
    MetadataRecord,
    QueuePosition,
    RowBodies,
    SettlementRecord,
    StoreTransaction,
)

LENGTH_MASK: Final = (1 << 32) - 1
"""Bits of a place for the length of its data; the bits above are the first block."""
COMMITS: Final = "commits"
"""Name of the transaction count in the table of sums."""
BODY_NUMBER: Final = struct.Struct("<q")
PACKS: Final = [struct.Struct(f"<{count}q").pack for count in range(8)]
"""Packers of as many numbers as their index: a commit packs the numbers of each record."""
WRONG: Final = "its checksum is wrong"


class ChecksumError(Exception):
    """Record whose checksum or form is wrong; the text names the reason."""


class Table(NamedTuple):
    """Table: its name, columns and record decoder."""

    name: str
    one: str
    """Name of one record of the table in a sentence."""
    key: str
    """Key column, SQLite's rowid."""
    columns: tuple[str, ...]
    """All columns, the key first."""
    read: Callable[[tuple[Any, ...]], Any]
    """Decode a record from its columns, in their order. Raises ChecksumError."""
    write: Callable[..., tuple[Any, ...]]
    """Return the columns of a record, in their order; of a metadata record with its number as well, and of a row or
    piece with the place of its data or None.
    """
    id: int
    """Number of the table in the table of sums, which never changes."""
    head: str = "data"
    """SQL expression for the data when only the records themselves are read."""


def encoded(text: str) -> bytes:
    """Encode a text for the store; damaged text that was read as bytes is encoded unchanged."""
    return text.encode(errors="surrogateescape")


def decoded(octets: bytes) -> str:
    """Decode a text from the store."""
    return octets.decode(errors="surrogateescape")


def seal_of(what: bytes, numbers: Sequence[int], data: bytes = b"") -> int:
    """Return the checksum of a record of this kind: of its numbers, and of its data if the data has no checksum of its
    own.
    """
    return zlib.crc32(data, zlib.crc32(what + PACKS[len(numbers)](*numbers)))


def _check(what: bytes, numbers: Sequence[int], seal: object, data: bytes = b"") -> None:
    try:
        if seal_of(what, numbers, data) == seal:
            return
    except (TypeError, struct.error):
        pass  # A flipped bit has changed the type of a value.
    raise ChecksumError(WRONG)


def _checked_data(crc: object, data: Any) -> bytes:
    """Return data with this checksum; empty if the data was not read (None or its place). Raises ChecksumError."""
    if data is None or type(data) is int:
        return b""
    if not isinstance(data, bytes) or zlib.crc32(data) != crc:
        raise ChecksumError(WRONG)
    return data


def _with_place(columns: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Return the numbers that the checksum of a row or piece covers: its first columns, and its place if there is
    one.
    """
    place = columns[count + 1] if len(columns) > count + 1 else None
    return (*columns[:count], place) if type(place) is int else columns[:count]


def _sealed(what: bytes, numbers: tuple[int, ...], data: bytes, place: int | None) -> tuple[Any, ...]:
    """Return the columns of a row or piece; the data columns contain its place if there is one."""
    numbers = (*numbers, zlib.crc32(data))
    if place is None:
        return (*numbers, seal_of(what, numbers), data)
    return (*numbers, seal_of(what, (*numbers, place)), place)


def length_of(place: int) -> int:
    """Return the bytes of the data at a place."""
    return place & LENGTH_MASK


def filled(record: Any, columns: tuple[Any, ...], read: Callable[[int], bytes]) -> Any:
    """Return a row or piece with the data read from the place in its columns. Raises ChecksumError."""
    try:
        data = read(columns[-1])
    except OSError as error:
        raise ChecksumError(f"its data cannot be read: {error.strerror or error}") from None
    return record._replace(data=_checked_data(columns[-3], data))


def write_row(row: MessageRow, place: int | None = None) -> tuple[Any, ...]:
    """Return the columns of a row, whose data is at a place."""
    return _sealed(b"row", (row.number, *row[2:]), row.data, place)


def read_head(columns: tuple[Any, ...]) -> MessageRow:
    """Decode a row without its data, from all columns, or all but the data if it has no place. Raises ChecksumError."""
    number, *others, _ = columns[:6]
    _check(b"row", _with_place(columns, 6), columns[6])
    return MessageRow(number, b"", *others)


def read_row(columns: tuple[Any, ...]) -> MessageRow:
    """Decode a row; the data is empty if it was not read (None), or has a place. Raises ChecksumError."""
    return read_head(columns)._replace(data=_checked_data(columns[5], columns[7]))


def write_settlement(record: SettlementRecord) -> tuple[Any, ...]:
    """Return the columns of a settlement record."""
    return record.number, seal_of(b"note", (record.number,), record.data), record.data


def read_settlement(columns: tuple[Any, ...]) -> SettlementRecord:
    """Decode a settlement record. Raises ChecksumError."""
    number, seal, data = columns
    _check(b"note", (number,), seal, data)
    return SettlementRecord(number, data)


def write_metadata(number: int, kind: bytes, key: bytes, data: bytes) -> tuple[Any, ...]:
    """Return the columns of a metadata record at this number in the order of declarations."""
    return number, kind, key, seal_of(b"thing", (number, len(kind), len(key)), kind + key + data), data


def read_metadata(columns: tuple[Any, ...]) -> MetadataRecord:
    """Decode a metadata record. Raises ChecksumError."""
    number, kind, key, seal, data = columns
    try:
        numbers, octets = (number, len(kind), len(key)), kind + key + data
    except TypeError:
        raise ChecksumError(WRONG) from None
    _check(b"thing", numbers, seal, octets)
    return MetadataRecord(decoded(kind), decoded(key), data)


def write_position(position: QueuePosition) -> tuple[Any, ...]:
    """Return the columns of a position; without a number of messages the checksum is version 1's."""
    numbers = position[:3] if position.messages == UNKNOWN else position
    return (*position, seal_of(b"position", numbers))


def read_position(columns: tuple[Any, ...]) -> QueuePosition:
    """Decode a position, of version 1 too. Raises ChecksumError."""
    position = QueuePosition(*columns[:-1])
    _check(b"position", position[:3] if position.messages == UNKNOWN else position, columns[-1])
    return position


def write_piece(piece: BodyPiece, place: int | None = None) -> tuple[Any, ...]:
    """Return the columns of a piece, whose data is at a place."""
    return _sealed(b"piece", (piece.key(), piece.body, piece.size), piece.data, place)


def read_piece(columns: tuple[Any, ...]) -> BodyPiece:
    """Decode a piece; the data is empty if it was not read (None), or has a place. Raises ChecksumError."""
    number, body, size, crc, seal, data = columns
    _check(b"piece", _with_place(columns, 4), seal)
    octets = _checked_data(crc, data)
    length = length_of(data) if type(data) is int else len(octets)
    if number >> PIECE_BITS != body or (data is not None and length != size):
        raise ChecksumError(WRONG)
    return BodyPiece(body, number & ((1 << PIECE_BITS) - 1), size, octets)


def write_row_bodies(record: RowBodies) -> tuple[Any, ...]:
    """Return the columns of the bodies of a row."""
    data = b"".join([BODY_NUMBER.pack(body) for body in record.bodies])
    numbers = (record.number, len(record.bodies))
    return (*numbers, seal_of(b"bodies", numbers, data), data)


def read_row_bodies(columns: tuple[Any, ...]) -> RowBodies:
    """Decode the bodies of a row. Raises ChecksumError."""
    number, bodies, seal, data = columns
    _check(b"bodies", (number, bodies), seal, data)
    if len(data) != bodies * BODY_NUMBER.size:
        raise ChecksumError(WRONG)
    return RowBodies(number, tuple(body for (body,) in BODY_NUMBER.iter_unpack(data)))


# fmt: off
METADATA_RECORDS: Final = Table("things", "thing", "number", ("number", "kind", "key", "seal", "data"), read_metadata,
                                write_metadata, 1)
POSITIONS: Final = Table("positions", "position", "queue", ("queue", "tail", "delivered", "messages", "seal"),
                         read_position, write_position, 2)
SETTLEMENTS: Final = Table("notes", "note", "number", ("number", "seal", "data"), read_settlement, write_settlement, 3)
ROWS: Final = Table("rows", "row", "number", ("number", "queue", "first", "messages", "size", "crc", "seal", "data"),
                    read_row, write_row, 4, "CASE queue WHEN 0 THEN data END")
PIECES: Final = Table("pieces", "piece", "number", ("number", "body", "size", "crc", "seal", "data"), read_piece,
                      write_piece, 6, "CASE WHEN size < 0 THEN data END")
ROW_BODIES: Final = Table("row_bodies", "bodies of row", "number", ("number", "bodies", "seal", "data"),
                          read_row_bodies, write_row_bodies, 7)
# fmt: on
FIRST_TABLES: Final = (METADATA_RECORDS, POSITIONS, SETTLEMENTS, ROWS)
"""Tables of schema version 1."""
COMMITS_ID: Final = 5
"""Number in the table of sums of the counts of transactions, their messages, and how often the store was opened."""
TABLES: Final = (METADATA_RECORDS, POSITIONS, SETTLEMENTS, PIECES, ROW_BODIES, ROWS)
"""All tables, in the order in which a check reads them."""
PLACED_TABLES: Final = (ROWS, PIECES)
"""Tables whose records may have their data at a place."""


def insertions(commit: StoreTransaction) -> list[tuple[Table, list[Any]]]:
    """Return the records that a commit writes by table, in the order of writing; metadata records are written
    separately (`latest`).
    """
    return [
        (ROWS, commit.rows),
        (SETTLEMENTS, commit.settlements),
        (POSITIONS, commit.positions),
        (PIECES, commit.pieces),
        (ROW_BODIES, commit.row_bodies),
    ]


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
