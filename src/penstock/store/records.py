"""Records of the store, the transaction that writes them, and its damages.

A *row* holds messages of one group commit, encoded by penstock.persistence. A *settlement record* (in the table
`notes`) has settlements and redeliveries of messages in rows. A row is deleted when no message is left, a settlement
record when all its rows are deleted. A *metadata record* (in the table `things`) is a definition (a queue, a binding
...): the latest state under its kind and key. A *position* is the progress of a queue. Rows and settlement records
share one sequence of numbers, which are not reused while references exist.

The body of a large message is not in its row: it is written in *pieces* while it arrives. The record *row bodies* lists
the bodies of a row's messages; a body without a row is deleted at the next start.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN: Final = -1
"""Value of a count that is unknown."""
PIECE_BITS: Final = 24
"""Bits of a piece's position in its key."""


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
        """Bodies of new rows; bodies are deleted with their rows."""

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


Record = MetadataRecord | QueuePosition | SettlementRecord | BodyPiece | RowBodies | MessageRow
"""Record of any table."""


def ignore(record: Record) -> None:
    """Ignore a record."""
