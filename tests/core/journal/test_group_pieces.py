"""Pieces of large bodies: written before the row, deleted after the settlement, a part at a time."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.journal.group import PIECES_DELETED, PIECES_MAX
from penstock.core.journal.journal import Journal
from penstock.core.large_bodies import PIECE_OCTETS, LargeBodies
from penstock.core.message import Envelope, StoredMessage
from penstock.core.settings.limits import Defaults
from tests.support.memory_store import some_large


def journal_of() -> tuple[Broker, Journal]:
    broker = Broker(Defaults())
    broker.large.stores = True
    broker.journal = Journal(broker.durable_changes, broker.gates.disk, broker.large)
    return broker, broker.journal


def test_complete_piece_is_urgent_and_goes_with_the_next_transaction() -> None:
    broker, journal = journal_of()
    assert journal.is_idle()
    content = some_large(broker, b"m", 2)
    assert journal.has_urgent()
    assert not journal.is_idle()
    assert len(journal.take()) == 1
    assert [(int(write.body.number), int(write.index)) for write in journal.pieces.writing] == [(1, 0), (1, 1)]
    journal.written()
    assert journal.is_idle()
    assert broker.large.ledger.is_whole(1, PIECE_OCTETS + 3)
    del content


def test_body_that_nothing_refers_to_is_deleted_with_the_group_that_was_open() -> None:
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


def test_body_whose_last_message_leaves_while_it_is_written_is_deleted_afterwards() -> None:
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


def test_body_of_which_no_piece_was_complete_has_nothing_to_delete() -> None:
    _, journal = journal_of()
    journal.pieces.delete([5])
    journal.take()
    assert journal.pieces.deleting == []


def test_octets_of_a_body_count_once_among_what_is_to_be_written() -> None:
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
