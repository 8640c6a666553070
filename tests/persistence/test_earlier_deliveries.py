"""Earlier deliveries of stored messages after a restart: redelivered ones, with and without failures."""

from __future__ import annotations

import pytest

from penstock.core.consume.outcome import add_headers
from penstock.core.queue.context import ContentChange
from penstock.core.queue.queue import Queue
from penstock.core.queue.storage import QueueStorage, reset_lookahead
from tests.support.memory_store import Shelf
from tests.support.paging_broker import FEW, PagedHouse

DURABLE: dict[str, tuple[dict[str, object], bool]] = {"q": ({}, True)}


def take(queue: Queue) -> list[tuple[bytes, bool, int]]:
    return [
        (message.content, message.redelivered, message.failures) for message in queue.ready_queue.messages() if message
    ]


@pytest.mark.parametrize("written_first", [True, False], ids=["in a settlement record", "in the row"])
def test_released_and_failed_deliveries_differ_after_a_restart(written_first: bool) -> None:
    house = PagedHouse(Shelf(), DURABLE)
    for content in (b"released", b"failed", b"both", b"new"):
        house.publish("q", content)
    if written_first:
        house.write()
    queue = house.queues["q"]
    messages = [message for message in queue.ready_queue.messages() if message is not None]
    queue.ready_queue.clear()
    released, failed, both, new = messages
    both.count_failure()
    both.mark_delivered()
    queue.requeue(released, house.now, False)
    queue.requeue(failed, house.now)
    queue.requeue(both, house.now)
    queue.ready_queue.put_back(new)
    house.write()
    expected = [(b"released", True, 0), (b"failed", True, 1), (b"both", True, 2), (b"new", False, 0)]
    assert take(queue) == expected
    assert take(PagedHouse(house.shelf, DURABLE).queues["q"]) == expected


class Grown(ContentChange):
    """A change that makes a content longer."""

    def content_of(self, content: bytes) -> bytes:
        return content + b"more"


def test_stored_message_that_grew_in_memory_leaves_with_its_new_charge() -> None:
    house = PagedHouse(Shelf(), DURABLE)
    house.publish("q", b"message")
    house.write()
    queue = house.queues["q"]
    message = queue.ready_queue.pull()
    before = int(queue.bytes)
    add_headers(queue, message, Grown(), house.now)
    assert (message.content, int(queue.bytes)) == (b"messagemore", before + 4)
    stored = int(queue.storage.vhost_usage.bytes())
    queue.release([message], house.now)
    queue.settle(1, message.charge, house.now)
    assert (int(queue.bytes), stored - int(queue.storage.vhost_usage.bytes())) == (0, before + 4)


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 5}, FEW], ids=["plain", "priority", "paging"])
def test_messages_that_a_lost_broker_may_have_delivered_count_as_delivered(arguments: dict[str, object]) -> None:
    queues = {"q": (arguments, True)}
    house = PagedHouse(Shelf(), queues)
    for number in range(10):
        house.publish("q", b"%d" % number)
    house.write()
    house.shelf.was_left = False
    house = PagedHouse(house.shelf, queues)
    found = []
    while len(found) < 10:
        message = house.get("q")
        if message is None:
            house.settle()
        else:
            found.append(message.redelivered)
    assert found == [True] * 10
    storage = house.queues["q"].storage
    assert storage is not None
    reset_lookahead([house.queues["q"]])
    house.write()
    assert house.shelf.positions[int(storage.number)].delivered == 10


def test_deliveries_of_a_lost_broker_are_stored_when_the_next_one_stops() -> None:
    house = PagedHouse(Shelf(), DURABLE)
    house.publish("q", b"message")
    house.write()
    house.shelf.was_left = False
    house = PagedHouse(house.shelf, DURABLE)
    reset_lookahead([house.queues["q"]])
    house.write()
    house.shelf.was_left = True
    assert take(PagedHouse(house.shelf, DURABLE).queues["q"]) == [(b"message", True, 0)]


def house_with_a_lookahead() -> tuple[PagedHouse, QueueStorage]:
    """Return a queue of which one message was delivered, and its storage: the mark is about to move ahead."""
    house = PagedHouse(Shelf(), DURABLE)
    for number in range(3):
        house.publish("q", b"%d" % number)
    house.write()
    assert house.get("q") is not None
    house.write()
    storage = house.queues["q"].storage
    assert storage.announcing == storage.redelivery_mark == storage.delivered == 1
    storage.lookahead = 16
    house.journal.mark_progress(storage)
    return house, storage


def test_stop_takes_back_a_mark_that_is_being_written() -> None:
    house, storage = house_with_a_lookahead()
    house.begin_write()
    assert storage.announcing == 17
    reset_lookahead([house.queues["q"]])
    house.journal.written()
    house.write()
    assert house.shelf.positions[int(storage.number)].delivered == 1


def test_stop_takes_back_a_mark_that_is_still_to_be_encoded() -> None:
    house, storage = house_with_a_lookahead()
    reset_lookahead([house.queues["q"]])
    house.write()
    assert house.shelf.positions[int(storage.number)].delivered == 1
