"""What becomes of pages when the broker is restarted, and when they are damaged."""

from __future__ import annotations

from tests.support.memory_store import Shelf
from tests.support.paging_broker import PagedHouse, house_with, numbered, publish


def test_pages_come_back_by_their_numbers_and_are_not_read_before_they_are_wanted() -> None:
    house = house_with()
    publish(house, 1, 30)
    house.settle()
    house = house_with(house.shelf)
    assert house.memory("q") == numbered(1, 4)
    assert house.queues["q"].depth_messages() == 30
    assert house.queues["q"].depth_bytes() == 30 * 300
    publish(house, 31, 33)
    assert house.drain("q") == numbered(1, 33)


def test_a_page_of_which_some_was_consumed_comes_back_with_the_rest_before_those_behind_it() -> None:
    house = house_with()
    publish(house, 1, 12)
    house.settle()
    assert [house.get("q") is not None for _ in range(4)] == [True] * 4
    house.settle()
    assert house.get("q") is not None
    house.settle()
    house = house_with(house.shelf)
    assert house.memory("q") == [b"6"]
    assert house.queues["q"].depth_messages() == 7
    assert house.drain("q") == numbered(6, 12)


def test_a_page_that_was_with_a_consumer_comes_back_before_what_came_after_all_pages() -> None:
    house = house_with()
    publish(house, 1, 6)
    house.settle()
    for _ in range(4):
        house.get("q")
    house.settle()
    for _ in range(2):
        assert house.get("q", no_ack=False) is not None
    house.settle()
    publish(house, 7, 8)
    house.settle()
    assert [row.queue > 0 for _, row in sorted(house.shelf.rows.items())] == [True, False]
    house = house_with(house.shelf)
    assert house.memory("q") == numbered(5, 8)
    message = house.get("q")
    assert message is not None
    assert message.redelivered


def test_a_page_that_a_consumer_had_is_redelivered_when_it_is_read_after_a_restart() -> None:
    house = house_with()
    publish(house, 1, 12)
    house.settle()
    for _ in range(6):
        assert house.get("q", no_ack=False) is not None
        house.settle()
    house = house_with(house.shelf)
    redelivered = []
    for _ in range(12):
        house.settle()
        message = house.get("q")
        assert message is not None
        redelivered.append(message.redelivered)
    assert redelivered == [True] * 6 + [False] * 6


def test_transient_messages_do_not_come_back_and_their_sequences_are_not_used_again() -> None:
    house = house_with()
    for number in range(1, 13):
        house.publish("q", b"%d" % number, 300, persistent=number % 3 == 0)
    house.settle()
    tail = int(house.queues["q"].tail)
    house = house_with(house.shelf)
    assert house.queues["q"].depth_messages() == 4
    assert house.queues["q"].tail == tail
    publish(house, 13, 20)
    assert house.drain("q") == [b"3", b"6", b"9", b"12", *numbered(13, 20)]
    assert not house.shelf.rows


def test_the_last_sequence_of_a_page_is_known_though_most_of_the_page_is_gone() -> None:
    house = house_with()
    publish(house, 1, 4)
    house.write()
    publish(house, 5, 11, persistent=False)
    publish(house, 12, 12)
    house.write()
    house = house_with(house.shelf)
    assert house.queues["q"].tail == 12
    publish(house, 13, 14)
    assert house.drain("q") == [*numbered(1, 4), *numbered(12, 14)]


def test_pages_of_a_queue_that_does_not_outlive_the_broker_go_at_its_next_start() -> None:
    house = house_with(durable=False)
    publish(house, 1, 12)
    house.settle()
    assert house.shelf.rows
    assert not house.shelf.positions
    house = house_with(house.shelf, durable=False)
    publish(house, 1, 6)
    house.settle()
    assert house.drain("q") == numbered(1, 6)
    assert not house.shelf.rows


def test_a_page_of_which_nothing_comes_back_is_read_before_it_is_gone_and_nothing_comes_of_it() -> None:
    house = house_with()
    publish(house, 1, 6)
    publish(house, 7, 8, persistent=False)
    publish(house, 9, 12)
    house.settle()
    house = house_with(house.shelf)
    for _ in range(4):
        house.get("q")
    house.ask()
    while house.reads:
        house.load()
        house.ask()
    house.settle()
    assert house.drain("q") == [*numbered(5, 6), *numbered(9, 12)]
    assert not house.shelf.rows


def test_a_queue_that_was_to_page_before_and_is_not_any_more_reads_its_pages_back() -> None:
    house = PagedHouse(Shelf(), {"q": ({"capacity-messages": 4}, True)})
    house.set("q", overflow="page")
    publish(house, 1, 10)
    house.settle()
    house = PagedHouse(house.shelf, {"q": ({"capacity-messages": 4}, True)})
    publish(house, 11, 11)
    assert len(house.producers["q"].outbox) == 1
    assert house.drain("q") == numbered(1, 11)


def test_pages_that_are_gone_from_the_disk_are_told_of_and_block_nothing() -> None:
    house = house_with()
    publish(house, 1, 12)
    house.settle()
    for number in [row.number for row in house.shelf.rows.values() if row.queue]:
        del house.shelf.rows[number]
    for _ in range(4):
        house.get("q")
    house.ask()
    house.load()
    assert house.failed == ["8 messages of queue 'q' in vhost '/' are lost: nothing is left of them"]
    assert house.queues["q"].depth_messages() == 0
    publish(house, 13, 14)
    assert house.drain("q") == numbered(13, 14)


def test_a_page_that_cannot_be_read_is_told_of_and_those_behind_it_come() -> None:
    house = house_with()
    publish(house, 1, 12)
    house.settle()
    damaged = min((row for row in house.shelf.rows.values() if row.queue), key=lambda row: row.first)
    house.shelf.rows[damaged.number] = damaged._replace(data=damaged.data[:-5])
    found = house.drain("q")
    assert found == numbered(1, 4) + numbered(7, 12)
    assert "page of queue 'q' in vhost '/': row" in house.failed[0]
    assert house.queues["q"].depth_messages() == 0
