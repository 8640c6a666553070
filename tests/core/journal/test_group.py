"""Journal groups and their rows: a sparse row is rewritten and removed soon.

Pieces of large bodies are written before their row and deleted after the settlement, in parts.
"""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.consume.outcome import Outcome
from penstock.core.journal.group import PIECES_DELETED, PIECES_MAX, PageWrite
from penstock.core.journal.journal import PATIENCE, SETTLEMENT_RECORDS_MAX, Journal
from penstock.core.large_bodies import PIECE_OCTETS, LargeBodies, PieceBudget
from penstock.core.message import Envelope, StoredMessage
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from tests.persistence.test_recovery import House
from tests.support.memory_store import Shelf, some_large
from tests.support.paging_broker import house_with


class Written:
    """A broker whose journal is written after every step."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.house = House(self.shelf)
        self.plain: Queue = self.house.queues["plain"]
        self.route = self.house.route("", "plain", 0, True)
        self.other = self.house.route("", "dead", 0, True)

    def publish(self, *contents: bytes) -> None:
        for content in contents:
            self.house.producer.publish(self.route, content, 300)
        self.write()

    def take(self, count: int) -> None:
        for _ in range(count):
            assert self.house.session.get(self.plain, True, 100.0) is not None
        self.write()

    def pass_on(self) -> None:
        """Something else comes and goes."""
        self.house.producer.publish(self.other, b"other", 300)
        self.write()
        assert self.house.session.get(self.house.queues["dead"], True, 100.0) is not None
        self.write()

    def write(self) -> None:
        self.shelf.write(self.house.journal)

    def recovered(self) -> list[bytes]:
        return [message.content for message in House(self.shelf).queues["plain"].ready_queue.messages()]


def test_rest_of_a_sparse_row_moves_into_a_new_row() -> None:
    broker = Written()
    broker.publish(*[b"%d" % number for number in range(100)])
    broker.take(80)
    first = min(broker.shelf.rows)
    for _ in range(PATIENCE):
        broker.pass_on()
    assert first not in broker.shelf.rows
    assert len(broker.shelf.rows) == 1
    assert not broker.shelf.notes
    assert broker.recovered() == [b"%d" % number for number in range(80, 100)]
    broker.take(20)
    assert not broker.shelf.rows


def test_row_with_more_than_a_sparse_rest_stays() -> None:
    broker = Written()
    broker.publish(*[b"%d" % number for number in range(100)])
    broker.take(70)
    first = min(broker.shelf.rows)
    for _ in range(2 * PATIENCE):
        broker.pass_on()
    assert first in broker.shelf.rows
    assert broker.recovered() == [b"%d" % number for number in range(70, 100)]


def test_messages_consumed_in_order_are_never_written_twice() -> None:
    broker = Written()
    for batch in range(50):
        broker.publish(*[b"%d" % (batch * 10 + number) for number in range(10)])
    rows = set(broker.shelf.rows)
    for _ in range(50):
        broker.take(10)
        assert set(broker.shelf.rows) <= rows
    assert not broker.shelf.rows


def test_message_requeued_repeatedly_does_not_pile_up_settlement_records() -> None:
    broker = Written()
    broker.publish(b"poison", b"other")
    for _ in range(4 * (SETTLEMENT_RECORDS_MAX + PATIENCE)):
        batch = broker.house.session.get(broker.plain, False, 100.0)
        broker.house.session.unsettled.settle_tag(batch.first, False, Outcome.FAILED, 100.0)
        broker.write()
        assert len(broker.shelf.notes) <= SETTLEMENT_RECORDS_MAX + PATIENCE + 2
    assert sorted(broker.recovered()) == [b"other", b"poison"]


def test_page_write_ends_behind_the_last_message() -> None:
    house = house_with()
    pages = house.pages("q")
    write = PageWrite(pages, pages.storage, 7, 5)
    assert write.end() == 5
    write.group.messages = [None, None]
    assert write.end() == 7
    assert (write.persistent_messages, write.purged) == (0, False)


def journal_of() -> tuple[Broker, Journal]:
    broker = Broker(Defaults())
    broker.large.stores = True
    broker.journal = Journal(broker.durable_changes, broker.gates.disk, broker.large)
    return broker, broker.journal


def test_complete_body_goes_with_the_next_transaction_and_is_urgent_if_awaited() -> None:
    broker, journal = journal_of()
    assert journal.is_idle()
    content = some_large(broker, b"m", 2)
    assert not journal.has_urgent()
    broker.large.crowded.append(PieceBudget(broker.large, None))
    assert journal.has_urgent()
    assert not journal.is_idle()
    assert len(journal.take()) == 1
    assert [(int(write.number), int(write.index)) for write in journal.pieces.writing] == [(1, 0), (1, 1)]
    journal.written()
    assert journal.is_idle()
    assert broker.large.ledger.is_whole(1, PIECE_OCTETS + 3)
    del content


def test_body_without_a_reference_is_deleted_with_the_group_that_was_open() -> None:
    broker, journal = journal_of()
    content = some_large(broker, b"m", 2)
    journal.take()
    journal.written()
    del content
    assert not journal.is_idle()
    assert not journal.has_urgent()
    (group,) = journal.take()
    assert group.bodies_gone == [1]
    assert journal.pieces.deleting == [(1, 0, PIECES_MAX - 1)]
    journal.written()
    assert journal.is_idle()
    assert broker.large.ledger.stored == {}


def test_body_whose_last_message_leaves_during_the_write_is_deleted_afterwards() -> None:
    broker, journal = journal_of()
    content = some_large(broker, b"m")
    journal.take()
    del content
    assert journal.pieces.deleting == []
    journal.written()
    journal.take()
    assert journal.pieces.deleting == [(1, 0, PIECES_MAX - 1)]


def test_very_large_body_is_deleted_over_several_transactions() -> None:
    large = LargeBodies()
    _, journal = journal_of()
    journal.pieces.large = large
    pieces = 2 * PIECES_DELETED + 10
    large.ledger.count(7, pieces * PIECE_OCTETS)
    large.ledger.count(8, 3)
    journal.pieces.delete([7, 8])
    found = []
    while not journal.is_idle():
        journal.take()
        found.append(journal.pieces.deleting)
        journal.written()
    last = PIECES_MAX - 1
    assert found == [
        [(7, 0, PIECES_DELETED - 1)],
        [(7, PIECES_DELETED, 2 * PIECES_DELETED - 1)],
        [(7, 2 * PIECES_DELETED, last), (8, 0, last)],
    ]


def test_body_of_which_no_piece_was_complete_needs_no_deletion() -> None:
    _, journal = journal_of()
    journal.pieces.delete([5])
    journal.take()
    assert journal.pieces.deleting == []


def test_bytes_of_a_body_count_once_in_unwritten_data() -> None:
    broker, journal = journal_of()
    queue = broker.add_vhost("/").declare_queue("q", {}, True, False, None, None)
    assert queue.storage is not None
    journal.take()
    journal.written()
    content = some_large(broker, b"m", 5)
    octets = 4 * PIECE_OCTETS + 3
    assert journal.unwritten() == octets
    queue.storage.add(StoredMessage(Envelope("", "q", persistent=True), content, octets + 100, 1, 0.0))
    assert journal.unwritten() == octets + 100
