"""Interface of a store, for all engines.

Tables of the store and the checksums of their records.

The checksum (column `seal`) is the crc32 of a record and of its table's name. The checksum reveals records whose bytes
have changed on the disk, and misplaced records. Only the data of a row or piece has a checksum of its own, which the
record's checksum covers: so the rest of a page's row, or of a piece, can be verified without its data. Instead of its
data, a large row or piece may have the place of the data in the data file (data_file.py), which the checksum covers
too.

Records of the store, the transaction that writes them, and its damages.

A *row* holds messages of one group commit, encoded by penstock.persistence. A *settlement record* (in the table
`notes`) has settlements and redeliveries of messages in rows. A row is deleted when no message is left, a settlement
record when all its rows are deleted. A *metadata record* (in the table `things`) is a definition (a queue, a binding
...): the latest state under its kind and key. A *position* is the progress of a queue. Rows and settlement records
share one sequence of numbers, which are not reused while references exist.

The body of a large message is not in its row: it is written in *pieces* while it arrives. The record *row bodies* lists
the bodies of a row's messages; a body without a row is deleted at the next start.
"""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple

UNKNOWN: Final = -1
"""Value of a count that is unknown."""
PIECE_BITS: Final = 24
"""Bits of a piece's position in its key."""
LENGTH_MASK: Final = (1 << 32) - 1
"""Bits of a place for the length of its data; the bits above are the first block."""
COMMITS: Final = "commits"
"""Name of the transaction count in the table of sums."""


class MessageRow(NamedTuple):
    """Row: messages of one group commit, or one page of a queue."""

    number: int
    data: bytes
    queue: int = 0
    """Number of the queue for a page; 0 for messages of any queues."""
    first: int = 0
    """For a page: sequence number of its first message."""
    messages: int = 0
    """Number of messages; for a page, of the messages that are restored after a restart."""
    size: int = 0
    """Sum of the messages' charges, in bytes."""


class SettlementRecord(NamedTuple):
    """Settlements and redeliveries of messages in rows."""

    number: int
    data: bytes


class MetadataRecord(NamedTuple):
    """The present state of a definition."""

    kind: str
    key: str
    data: bytes | None
    """Encoded definition; None if the definition is deleted."""


class QueuePosition(NamedTuple):
    """The progress of a queue."""

    queue: int
    """Number of the queue."""
    tail: int
    """Last sequence number assigned to a message."""
    delivered: int
    """Highest sequence number that was delivered to a consumer."""
    messages: int = UNKNOWN
    """Number of unsettled messages in rows; UNKNOWN in a store of version 1."""


class BodyPiece(NamedTuple):
    """A piece of the body of a large message."""

    body: int
    """Number of the body."""
    at: int
    """Index of the piece in the body: 0, 1, 2 ..."""
    size: int
    """Number of bytes of the piece."""
    data: bytes
    """Bytes of the piece; empty if they were not read."""

    def key(self) -> int:
        """Return the key in the table of pieces: pieces of a body follow each other."""
        return piece_key(self.body, self.at)


class RowBodies(NamedTuple):
    """Bodies of the large messages in one row, settled ones included."""

    number: int
    """Number of the row."""
    bodies: tuple[int, ...]
    """Numbers of the bodies, each once."""


def piece_key(body: int, at: int) -> int:
    """Return the key of a piece."""
    return body << PIECE_BITS | at


class StoreTransaction:
    """Atomic transaction. Insertions are written before deletions."""

    def __init__(self) -> None:
        self.rows: list[MessageRow] = []
        self.rows_gone: list[int] = []
        """Numbers of rows to delete."""
        self.pages_gone: list[tuple[int, int, int]] = []
        """Pages to delete: the number of a queue, and a range of first sequence numbers, both ends included."""
        self.settlements: list[SettlementRecord] = []
        self.settlements_gone: list[int] = []
        self.metadata: list[MetadataRecord] = []
        """Changed definitions in order; see `latest`."""
        self.positions: list[QueuePosition] = []
        self.positions_gone: list[int] = []
        """Numbers of deleted queues."""
        self.pieces: list[BodyPiece] = []
        self.pieces_gone: list[tuple[int, int, int]] = []
        """Pieces to delete: the number of a body, and a range of indexes, both ends included."""
        self.row_bodies: list[RowBodies] = []
        """Bodies of new rows; they are deleted with their rows."""

    def latest(self) -> list[MetadataRecord]:
        """Return the last state of each definition; new definitions in the order of their declaration.

        Only these states are written. If a commit is repeated because its outcome is unknown, writing each change
        (delete a definition, declare it and another) could change the order.
        """
        return list({(record.kind, record.key): record for record in self.metadata}.values())

    def size(self) -> int:
        """Return the approximate number of bytes that the transaction writes."""
        return (
            sum(len(row.data) for row in self.rows)
            + sum(len(record.data) for record in self.settlements)
            + sum(len(record.data or b"") for record in self.metadata)
            + sum(len(piece.data) for piece in self.pieces)
        )


STALE: Final = "they are not the ones that were written last"
"""Damage of a table whose records are all intact: deleted records may have reappeared."""


class Damage(NamedTuple):
    """Part of the store that cannot be read."""

    what: str
    """Description: a row, page, note or thing, or a number of these."""
    why: str
    queue: int = 0
    """Number of the page's queue; 0 if unknown, or for messages of any queues."""
    messages: int = 0
    """Number of messages in the damaged part, settled or not; 0 if unknown."""
    table: str = ""
    """Table with missing records; empty if none can be missing."""


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
    """Return the columns of a position; without a number of messages the checksum is that of version 1."""
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


class Usage(NamedTuple):
    """Disk usage of a store, as the file system (or the server) counts it."""

    used: int
    """Bytes in use: `taken` minus the reusable part."""
    taken: int
    """Bytes taken from the file system."""
    free: int | None
    """Bytes free on the file system; None if unknown."""
    total: int | None = None
    """Size of the file system in bytes; None if unknown."""
    needed: int = 0
    """Free bytes that the store needs even without new messages: for a checkpoint and for its reserve."""


Record = MetadataRecord | QueuePosition | SettlementRecord | BodyPiece | RowBodies | MessageRow
"""Record of any table."""


def ignore(record: Record) -> None:
    """Ignore a record."""


class Store(ABC):
    """Store interface: writes transactions. One thread at a time uses it; every call may block for as long as the disk
    takes.

    The text of a store (`str`) is its location, for display.
    """

    when_damaged: ClassVar[str] = (
        "`penstock store check` tells all of it, "
        "`penstock store repair NEW` saves the rest in a folder NEW to start from"
    )
    """Advice for damage."""

    was_left: bool = True
    """False once opened, if the last broker may have delivered messages after its last commit."""

    damaged: list[Damage]
    """Damage found since the store was opened: `metadata`, `positions`, `settlements`, `rows` and `pages` return intact
    records and add damaged ones here; `pieces`, `row_bodies` and `piece` do the same.

    Missing records are known when one of the first four, `pieces` or `row_bodies` was read to its end.
    """

    @abstractmethod
    def open(self) -> None:
        """Open the store, and create or migrate its schema.

        Raises StoreError with one sentence: the store is in use, foreign, too new, or cannot be read or written.
        """

    def try_open(self, patience_s: float) -> bool:
        """Open the store if it is free within a number of seconds; return whether it was.

        Raises StoreError. A store in a folder belongs to the holder of the folder's lock.
        """
        self.open()
        return True

    def held_by(self) -> str:
        """Describe the holder when `try_open` returned False."""
        return "another broker"

    def metadata(self) -> Iterator[MetadataRecord]:
        """Return all definitions, in the order of their declarations."""
        return self._read(METADATA_RECORDS)

    def positions(self) -> Iterator[QueuePosition]:
        """Return the positions of the queues."""
        return self._read(POSITIONS)

    def settlements(self) -> Iterator[SettlementRecord]:
        """Return the settlements, oldest first."""
        return self._read(SETTLEMENTS)

    def rows(self) -> Iterator[MessageRow]:
        """Return the rows, oldest first; rows that are pages come without their data (b"").

        Reading to the end also checks the index that `pages` uses.
        """
        return self._read(ROWS)

    def pieces(self) -> Iterator[BodyPiece]:
        """Return the pieces of the bodies of large messages, in order, without their data (b"")."""
        return self._read(PIECES)

    def row_bodies(self) -> Iterator[RowBodies]:
        """Return the bodies of rows, oldest row first."""
        return self._read(ROW_BODIES)

    @abstractmethod
    def piece(self, body: int, at: int) -> bytes | None:
        """Return the data of a piece; None if it is missing or damaged, which is recorded. Raises StoreError."""

    @abstractmethod
    def pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        """Return the pages of a queue whose first sequence is this or a later one, in order.

        At most `most` bytes of data, but at least one page, if there is one.
        """

    @abstractmethod
    def page_heads(self, queue: int, sequence: int, most: int) -> list[MessageRow]:
        """Return pages of a queue without their data, in order, at most `most`.

        The first is the last page that begins at this sequence or before, if there is any.
        """

    @abstractmethod
    def _read(self, table: Table) -> Iterator[Any]:
        """Return the intact records of a table, in the order of their keys; damage goes to `damaged`."""

    @abstractmethod
    def commit(self, commit: StoreTransaction) -> None:
        """Write all changes; they are durable on return.

        Raises StoreFull for a full disk, StoreError for other errors. The commit then has no effect and may be retried
        any number of times. No other commit should be written in between: a disk that reported a failure may still
        contain the whole commit after a crash.
        """

    @abstractmethod
    def reclaim_space(self, idle: bool = True) -> bool:
        """Do a bounded step of housekeeping; return whether there is more. Raises StoreError.

        Returns free space to the file system. While idle, call this until it returns False. While busy (`idle` is
        False), call this once a second between two transactions, and more often while there is more.
        """

    @abstractmethod
    def check(self, take: Callable[[Record], None] = ignore) -> list[Damage]:
        """Read everything, pages too, and return the damage. Raises StoreError for other errors.

        Intact records are passed to `take` with their data: metadata, positions, settlements, pieces of bodies, the
        bodies of rows, then rows.
        """

    @abstractmethod
    def usage(self) -> Usage:
        """Return the present disk usage."""

    def interrupt(self) -> bool:
        """Make calls of the using thread fail with StoreError, soon and for good; return whether that is possible.

        This is the only thread-safe method. Waits for a local disk cannot be interrupted.
        """
        return False

    @abstractmethod
    def close(self) -> None:
        """Close the store; committed data stays."""


class Leased(ABC):
    """Lease of a store that a standby on another machine can take over."""

    @abstractmethod
    def release_lease(self) -> None:
        """Release the store to another broker.

        The next use of the store takes the lease back, or raises StoreLost if another broker has held it.
        """
