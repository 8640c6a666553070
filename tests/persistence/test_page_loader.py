"""Pages that are read back: how much at once, and how far ahead of the consumers."""

from __future__ import annotations

from penstock.core.queue.pager import AHEAD_BYTES, PAGE_BYTES, READ_BYTES
from tests.support.paging_broker import house_with, publish


def test_pages_are_no_larger_than_half_the_capacity_and_reading_ahead_than_a_bound() -> None:
    house = house_with(capacity_messages="none", capacity_bytes=64 * 1024 * 1024)
    house.set("q", hold_deadline=0)
    publish(house, 1, 120, 1024 * 1024)
    for _ in range(20):
        house.settle()
    pages = house.pages("q")
    assert pages.messages == 120 - 64
    assert all(row.size <= max(PAGE_BYTES, 1024 * 1024) for row in house.shelf.rows.values() if row.queue)
    for _ in range(61):
        house.get("q")
    house.settle()
    assert house.queues["q"].bytes <= AHEAD_BYTES
    assert len(house.memory("q")) == AHEAD_BYTES // (1024 * 1024)


def test_pages_are_read_ahead_in_pieces() -> None:
    house = house_with(capacity_messages="none", capacity_bytes=8 * 1024 * 1024)
    for number in range(400):
        house.publish("q", b"%d" % number + b"." * 60_000, 60_000)
        if house.pages("q").unwritten_bytes > READ_BYTES:
            house.write()
    house.write()
    for _ in range(139):
        assert house.get("q") is not None
    pieces: list[int] = []
    house.ask()
    while house.reads:
        read = house.reads[0]
        pieces.append(sum(len(row.data) for row in house.shelf.some_pages(read.number, read.first, read.most)))
        house.load()
        house.ask()  # The next piece is wanted as soon as this one is in memory.
    assert len(pieces) > 2
    assert max(pieces) <= READ_BYTES
    assert sum(pieces) > AHEAD_BYTES - 2 * PAGE_BYTES
