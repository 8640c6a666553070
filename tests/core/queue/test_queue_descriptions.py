"""Clauses that describe overflow and paging of a queue."""

from __future__ import annotations

from penstock.core.queue.queue import describe_depth, describe_paging
from tests.support.broker_fixture import House
from tests.support.memory_store import Shelf
from tests.support.paging_broker import PagedHouse, house_with, publish


def test_overflow_is_described_with_depth_capacity_and_policy() -> None:
    house = House("a", capacity_messages=2, overflow="reject")
    house.publish_now("a", 300)
    assert describe_depth(house.vhost.queues["a"]) == (
        "queue 'a' holds 1 message, 300 bytes; its capacity is 2 messages and its overflow policy reject"
    )


def test_overflow_at_a_length_is_described_beside_the_capacity() -> None:
    house = House("a", capacity_messages=2, x_max_length=1)
    assert describe_depth(house.vhost.queues["a"]) == (
        "queue 'a' holds 0 messages, 0 bytes; its capacity is 2 messages and its overflow policy block; it has 0 "
        "messages ready, of a max-length of 1 message, which does not count what consumers have; above it the oldest "
        "are dropped by its overflow policy drop-head"
    )


def test_depth_of_a_paging_queue_is_described_with_paged_messages_and_limit() -> None:
    house = house_with(page_limit_messages=20, messages=6)
    said = describe_depth(house.queues["q"])
    assert "holds 6 messages, 1,800 bytes" in said
    assert said.endswith("; of these 2, 600 bytes, are on the disk, where 20 messages is the most")


def test_paging_is_described_by_unwritten_bytes_and_then_by_the_limit() -> None:
    house = house_with(page_limit_messages=2, messages=5)
    queue = house.queues["q"]
    pages = house.pages("q")
    assert describe_paging(queue, pages) == "300 bytes wait to be written to the disk"
    publish(house, 6, 6)
    house.settle()
    assert describe_paging(queue, pages) == "2 of 2 messages: no room for the next message"


def test_paging_that_was_switched_off_is_described_by_messages_to_read_back() -> None:
    house = PagedHouse(Shelf(), {"q": ({"capacity-messages": 4}, True)})
    house.set("q", overflow="page")
    publish(house, 1, 6)
    house.settle()
    house.set("q", overflow="block")
    said = describe_paging(house.queues["q"], house.pages("q"))
    assert said == "2 messages are read back from disk first: the queue no longer pages"
