"""Pages on their way from the disk to the memory."""

from __future__ import annotations

from penstock.core.queue.pager import PageRead
from tests.support.paging_broker import house_with


def test_page_read_asks_for_the_first_sequence_that_is_not_in_memory() -> None:
    house = house_with(messages=10)
    house.write()
    for _ in range(4):
        house.get("q")
    (read,) = house.broker.take_page_reads()
    pages = house.pages("q")
    assert isinstance(read, PageRead)
    assert (read.number, read.first) == (pages.storage.number, 5)
