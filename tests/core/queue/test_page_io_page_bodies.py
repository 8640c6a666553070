"""Bodies of large messages in pages live as long as their page."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.queue.page_io import PageBodies
from penstock.core.settings.limits import Defaults
from tests.support.memory_store import some_large


def test_page_holds_the_bodies_of_its_messages_until_it_is_released() -> None:
    broker = Broker(Defaults())
    broker.large.stores = True
    bodies = PageBodies(broker.large)
    bodies.hold(7, some_large(broker, b"a"))
    bodies.hold(7, some_large(broker, b"b"))
    bodies.hold(8, some_large(broker, b"c"))
    bodies.hold(8, b"small")
    broker.large.take_writes()
    assert broker.large.take_unreferenced() == []
    bodies.release(7)
    bodies.release(7)
    assert sorted(broker.large.take_unreferenced()) == [1, 2]
    bodies.clear()
    assert broker.large.take_unreferenced() == [3]


def test_page_from_before_a_restart_holds_bodies_by_their_numbers() -> None:
    broker = Broker(Defaults())
    bodies = PageBodies(broker.large)
    bodies.restore(3, (11, 12))
    assert broker.large.ledger.holds(11)
    bodies.release(3)
    assert sorted(broker.large.take_unreferenced()) == [11, 12]
