"""Queues that page before the disk's gates: what would be paged waits there, and pages count in a host's quota."""

from __future__ import annotations

import pytest

from tests.support.memory_store import Shelf
from tests.support.paging_broker import FEW, PagedHouse


@pytest.mark.parametrize("durable", [True, False])
def test_a_transient_message_waits_for_the_disk_only_where_it_would_be_paged(durable: bool) -> None:
    house = PagedHouse(Shelf(), {"q": (FEW, durable)})
    house.broker.gates.disk_fails("no room")
    for number in range(6):
        house.publish("q", b"%d" % number, persistent=False)
    queue, producer = house.queues["q"], house.producers["q"]
    assert (queue.messages, house.pages("q").messages, len(producer.outbox)) == (4, 0, 2)
    house.broker.gates.disk_works()
    house.step()
    assert (queue.depth_messages(), len(producer.outbox)) == (6, 0)
    house.settle()
    assert house.drain("q") == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("how", ["drain", "purge"])
def test_pages_count_as_stored_until_they_are_consumed_or_purged(how: str) -> None:
    shelf = Shelf()
    house = PagedHouse(shelf, {"q": (FEW, True)})
    stock = house.broker.gates.disk.vhost_usage("/")
    for number in range(20):
        house.publish("q", b"%d" % number)
    house.settle()
    assert stock.bytes() == 20 * 300
    again = PagedHouse(shelf, {"q": (FEW, True)})
    stock = again.broker.gates.disk.vhost_usage("/")
    again.settle()
    assert stock.bytes() == 20 * 300
    if how == "drain":
        assert len(again.drain("q")) == 20
    else:
        assert again.queues["q"].purge(again.now) == 20
    assert stock.bytes() == 0
