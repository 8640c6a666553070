"""Pages on their way from the disk to the memory.

Bodies of large messages in pages live as long as their page.
"""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.queue.pager import PageBodies, PageRead
from penstock.core.settings.limits import Defaults
from tests.support.memory_store import some_large
from tests.support.paging_broker import house_with
from tests.support.piece_store import PieceStore


def test_page_read_asks_for_the_first_sequence_beyond_the_memory() -> None:
    house = house_with(messages=10)
    house.write()
    for _ in range(4):
        house.get("q")
    (read,) = house.broker.take_page_reads()
    pages = house.pages("q")
    assert isinstance(read, PageRead)
    assert (read.number, read.first) == (pages.storage.number, 5)


def test_page_holds_the_bodies_of_the_messages_until_the_release() -> None:
    broker = Broker(Defaults())
    store = PieceStore(broker.large)
    bodies = PageBodies(broker.large)
    bodies.hold(7, some_large(broker, b"a"))
    bodies.hold(7, some_large(broker, b"b"))
    bodies.hold(8, some_large(broker, b"c"))
    bodies.hold(8, b"small")
    store.write()
    assert sorted(store.pieces) == [(1, 0), (2, 0), (3, 0)]
    bodies.release(7)
    bodies.release(7)
    store.write()
    assert sorted(store.pieces) == [(3, 0)]
    bodies.clear()
    store.write()
    assert store.pieces == {}


def test_page_from_before_a_restart_holds_bodies_by_number() -> None:
    broker = Broker(Defaults())
    bodies = PageBodies(broker.large)
    for number in (11, 12):
        broker.large.ledger.count(number, 1)
    bodies.restore(3, (11, 12))
    assert broker.large.ledger.holds(11)
    bodies.release(3)
    assert sorted(broker.large.take_unreferenced()) == [11, 12]
