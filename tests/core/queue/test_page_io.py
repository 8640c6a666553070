"""Pages on their way between the memory and the disk."""

from __future__ import annotations

from penstock.core.queue.page_io import PageRead, PageWrite
from tests.support.paging_broker import house_with, publish


def test_page_write_ends_behind_its_last_message() -> None:
    house = house_with()
    pages = house.pages("q")
    write = PageWrite(pages, 7, 5)
    assert write.end() == 5
    write.group.messages = [None, None]
    assert write.end() == 7
    assert (write.persistent_messages, write.purged) == (0, False)


def test_page_read_asks_for_the_first_sequence_that_is_not_in_memory() -> None:
    house = house_with()
    publish(house, 1, 10)
    house.write()
    for _ in range(4):
        house.get("q")
    (read,) = house.journal.take_reads()
    pages = house.pages("q")
    assert isinstance(read, PageRead)
    assert (read.number, read.first) == (pages.storage.number, 5)
