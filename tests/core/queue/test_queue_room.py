"""Which queues reserve room, how much of it is free, and clauses that describe overflow and paging."""

from __future__ import annotations

import pytest

from penstock.core.publish.reservation import Reservation
from penstock.core.queue.queue_room import describe_depth, describe_paging
from tests.support.broker_fixture import House
from tests.support.memory_store import Shelf
from tests.support.paging_broker import PagedHouse, house_with, publish


@pytest.mark.parametrize(
    ("policy", "reserves"), [("block", True), ("reject", False), ("drop-head", False), ("drop-new", False)]
)
def test_queue_reserves_room_only_if_its_policy_holds_publishes(policy: str, reserves: bool) -> None:
    house = House("a", capacity_messages=3, overflow=policy)
    assert house.vhost.queues["a"].reserved.reserves() == reserves


def test_queue_that_holds_reserves_room_beside_a_length() -> None:
    house = House("a", capacity_messages=3, x_max_length=2)
    room = house.vhost.queues["a"].reserved
    reservation = Reservation([house.vhost.queues["a"]], 50, [])
    granted = int(reservation.grant(10, 100.0))
    assert (room.reserves(), granted > 0) == (True, True)
    house.set("queue", "#", overflow="reject")
    assert (room.reserves(), int(room.messages)) == (True, granted), "the overflow is of the length"


def test_free_room_is_neither_filled_nor_reserved() -> None:
    house = House("a", capacity_messages=10, capacity_bytes=1_000)
    room = house.vhost.queues["a"].reserved
    house.publish_now("a", 100)
    reservation = Reservation([house.vhost.queues["a"]], 50, [])
    reservation.grant(2, 100.0)
    assert room.free().as_dict() == {"messages": 7, "bytes": 800}
    house.broker.delete_queue(house.vhost.queues["a"])
    assert (int(room.messages), room.reserves()) == (0, False)


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
