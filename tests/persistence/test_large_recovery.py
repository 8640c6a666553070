"""Bodies of large messages after a restart: complete ones come back, others are deleted."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.journal.journal import Journal
from penstock.core.large_bodies import PIECE_OCTETS, PieceBudget
from penstock.core.large_content import body_of, head_of
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from penstock.persistence.recovery import Recovery
from penstock.persistence.store_scan import StoreScanner
from penstock.store.records import UNKNOWN, QueuePosition, piece_key
from tests.support.memory_store import WALL, Shelf, some_large
from tests.support.topology import resolve


class Life:
    """One life of a broker with a queue."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.broker = Broker(Defaults())
        self.broker.begin(100.0)
        self.journal = Journal(self.broker.durable_changes, self.broker.gates.disk, self.broker.large)
        self.broker.journal = self.journal
        self.queue: Queue = self.broker.add_vhost("/").declare_queue("q", {}, True, False, None, None)
        self.broker.large.stores = True
        self.recovery = Recovery(self.broker, self.journal, WALL)
        for position in shelf.positions.values():
            self.recovery.position(position)
        for _, piece in sorted(shelf.pieces.items()):
            self.recovery.piece(piece._replace(data=b""))
        for record in shelf.row_bodies.values():
            self.recovery.row_bodies(record)
        for _, row in sorted(shelf.rows.items()):
            self.recovery.row(row)
        self.recovery.finish()

    def publish(self, content: bytes) -> None:
        vhost = self.broker.vhosts["/"]
        route = resolve(vhost, "", "q")
        Producer(self.broker, "p", HoldBudget(1 << 40)).publish(route.persistent(), content, 5000)

    def write(self) -> None:
        self.shelf.write(self.journal)

    def contents(self) -> list[bytes]:
        return [message.content for message in self.queue.ready_queue.messages()]


def filled() -> Shelf:
    """Return what a broker has left that had two large messages, and one between them."""
    life = Life(Shelf())
    for content in (some_large(life.broker, b"a", 3), b"small", some_large(life.broker, b"b")):
        life.publish(content)
    life.write()
    assert len(life.shelf.pieces) == 4
    return life.shelf


def test_recovered_large_message_has_its_head_and_a_body_that_is_in_the_store() -> None:
    life = Life(filled())
    first, small, last = life.contents()
    assert (head_of(first), small, head_of(last)) == (b"a", b"small", b"b")
    body = body_of(first)
    assert (body.number, body.octets, body.pieces) == (1, 2 * PIECE_OCTETS + 3, {})
    assert life.recovery.bodies_gone == 0


def test_incomplete_body_is_deleted_at_recovery_and_its_number_not_reused() -> None:
    life = Life(filled())
    arrival = life.broker.large.begin(PieceBudget(life.broker.large, None))
    arrival.append(bytes(2 * PIECE_OCTETS))
    life.broker.large.crowded.append(PieceBudget(life.broker.large, None))
    life.write()
    assert len(life.shelf.pieces) == 6
    life = Life(life.shelf)
    assert life.recovery.bodies_gone == 1
    assert int(life.broker.large.next_number) == 4
    life.write()
    assert {piece.body for piece in life.shelf.pieces.values()} == {1, 2}


def test_recovery_leaves_out_a_message_that_has_lost_a_piece_and_deletes_the_others() -> None:
    shelf = filled()
    del shelf.pieces[piece_key(1, 1)]
    life = Life(shelf)
    assert [head_of(content) for content in life.contents()] == [b"small", b"b"]
    (loss,) = life.recovery.account.losses([])
    assert str(loss) == "queue 'q' in vhost '/' has lost 1 of 3 messages"
    assert life.recovery.bodies_gone == 1
    life.write()
    assert {piece.body for piece in shelf.pieces.values()} == {2}


def test_scan_counts_a_message_only_if_its_body_is_whole() -> None:
    shelf = filled()
    del shelf.pieces[piece_key(2, 0)]
    scan = StoreScanner()
    scan.take(QueuePosition(1, 3, 0, UNKNOWN))
    for record in (*shelf.pieces.values(), *shelf.row_bodies.values(), *shelf.rows.values()):
        scan.take(record)
    assert scan.account.found == {1: 2}
    assert scan.damaged == []
