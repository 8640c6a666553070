"""A store that is a few dictionaries: what is committed is there, and nothing else."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.journal.journal import Journal
from penstock.core.large_bodies import PIECE_OCTETS, PieceBudget
from penstock.core.large_content import large_content
from penstock.persistence.recovery import Recovery
from penstock.store.records import BodyPiece, MessageRow, MetadataRecord, QueuePosition, RowBodies, StoreTransaction
from tests.support import at_once

WALL = 1_700_000_000.0
"""Wall time (seconds) at zero of every broker's clock."""


def heads_of(pages: list[MessageRow], sequence: int, most: int) -> list[MessageRow]:
    """Return what `Store.page_heads` returns of a queue with these pages."""
    begin = max((page.first for page in pages if page.first <= sequence), default=0)
    return [page._replace(data=b"") for page in pages if page.first >= begin][:most]


class Shelf:
    """Rows, notes, positions and things, as the transactions so far have left them."""

    def __init__(self) -> None:
        self.rows: dict[int, MessageRow] = {}
        self.notes: dict[int, bytes] = {}
        self.positions: dict[int, QueuePosition] = {}
        self.things: dict[tuple[str, str], bytes] = {}
        self.pieces: dict[int, BodyPiece] = {}
        self.row_bodies: dict[int, RowBodies] = {}
        self.was_left: bool = True
        """As `Store.was_left`."""

    def commit(self, commit: StoreTransaction) -> None:
        for row in commit.rows:
            assert row.number not in self.rows, "a row was written twice"
            self.rows[row.number] = row
        for piece in commit.pieces:
            assert piece.key() not in self.pieces, "a piece was written twice"
            self.pieces[piece.key()] = piece
        for record in commit.row_bodies:
            self.row_bodies[record.number] = record
        for note in commit.settlements:
            self.notes[note.number] = note.data
        for position in commit.positions:
            self.positions[position.queue] = position
        for thing in commit.latest():
            self.put(thing)
        for number in commit.rows_gone:
            del self.rows[number]
            self.row_bodies.pop(number, None)
        for body, at, last in commit.pieces_gone:
            for piece in [each for each in self.pieces.values() if each.body == body and at <= each.at <= last]:
                del self.pieces[piece.key()]
        for queue, first, last in commit.pages_gone:
            for page in self.pages(queue, first):
                if page.first <= last:
                    del self.rows[page.number]
                    self.row_bodies.pop(page.number, None)
        for number in commit.settlements_gone:
            del self.notes[number]
        for number in commit.positions_gone:
            self.positions.pop(number, None)

    def write(self, journal: Journal) -> None:
        """Write whatever a journal has gathered."""
        self.commit(at_once.encode(journal, journal.take(), WALL))
        journal.written()

    def put(self, thing: MetadataRecord) -> None:
        if thing.data is None:
            self.things.pop((thing.kind, thing.key), None)
        else:
            self.things[thing.kind, thing.key] = thing.data

    def pages(self, queue: int, first: int) -> list[MessageRow]:
        """Return the pages of a queue from a first sequence on, in order."""
        return sorted(
            (row for row in self.rows.values() if row.queue == queue and row.first >= first), key=lambda row: row.first
        )

    def some_pages(self, queue: int, first: int, most: int) -> list[MessageRow]:
        """As `Store.pages`."""
        found: list[MessageRow] = []
        for row in self.pages(queue, first):
            most -= len(row.data)
            if found and most < 0:
                break
            found.append(row)
        return found

    def page_heads(self, queue: int, sequence: int, most: int) -> list[MessageRow]:
        """As `Store.page_heads`."""
        return heads_of(self.pages(queue, 0), sequence, most)

    def recover(self, broker: Broker, journal: Journal) -> Recovery:
        """Bring everything but the things back into a broker that has its queues."""
        broker.large.stores = True
        recovery = Recovery(broker, journal, WALL, self.was_left)
        for position in self.positions.values():
            recovery.position(position)
        for number, note in sorted(self.notes.items()):
            recovery.settlement(number, note)
        for _, piece in sorted(self.pieces.items()):
            recovery.piece(piece._replace(data=b""))
        for _, record in sorted(self.row_bodies.items()):
            recovery.row_bodies(record)
        for _, row in sorted(self.rows.items()):
            recovery.row(row._replace(data=b"") if row.queue else row)
        wanted = recovery.wanted()
        while wanted is not None:
            recovery.pages(wanted, self.some_pages(*wanted))
            wanted = recovery.wanted()
        recovery.finish()
        losses = recovery.account.losses([])
        assert not losses, "the store says of a queue that it has more messages, or less"
        return recovery


def some_large(broker: Broker, mark: bytes, pieces: int = 1) -> bytes:
    """Return a large content of a message that has come; its head is a mark, which its body repeats."""
    arrival = broker.large.begin(PieceBudget(broker.large, None))
    for at in range(pieces):
        arrival.append(mark * 3 if at + 1 == pieces else mark.ljust(PIECE_OCTETS, b"."))
    return large_content(mark, arrival.finish([]))
