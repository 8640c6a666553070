"""Stored queues, pages and cursors that come and go leave nothing to the garbage collector."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.content.properties import Properties
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.unlinking import unlink
from penstock.protocols.amqp091.content_frames import make_content
from tests.support.left_objects import left_by
from tests.support.memory_store import Shelf
from tests.support.paging_broker import FEW, PagedHouse, publish
from tests.support.restored_broker import Declared, journaled, queue_of
from tests.support.topology_changes import ask

pytestmark = pytest.mark.once

ROUNDS = 100
MESSAGES = 12


def settle(house: PagedHouse) -> None:
    house.settle()
    house.broker.effects()
    for producer in house.broker.take_confirming():
        producer.confirms.take()
    unlink(house.broker.take_ended())


def stored_messages(house: PagedHouse) -> None:
    publish(house, 1, MESSAGES)
    house.settle()
    assert len(house.drain("q")) == MESSAGES


def purges(house: PagedHouse) -> None:
    publish(house, 1, MESSAGES)
    house.settle()
    assert house.queues["q"].purge(house.now) == MESSAGES
    house.settle()


def queues(house: PagedHouse) -> None:
    arguments = dict(FEW) if house.queues["q"].pager is not None else {}
    queue = house.vhost.declare_queue("other", arguments, True, False, None, None)
    house.queues["other"], house.producers["other"] = queue, house.producer("other")
    for _ in range(MESSAGES):
        house.publish("other", b"x")
    house.settle()
    house.broker.delete_queue(queue)
    house.producers.pop("other").close_gracefully()
    del house.queues["other"]
    house.settle()


@pytest.mark.parametrize("arguments", [{}, FEW, {"x-max-priority": 3}], ids=["memory", "paging", "priority"])
@pytest.mark.parametrize("kind", [stored_messages, purges, queues])
def test_stored_messages_leave_no_object_to_the_collector(
    kind: Callable[[PagedHouse], None], arguments: dict[str, object]
) -> None:
    house = PagedHouse(Shelf(), {"q": (arguments, True)})

    def come_and_go() -> None:
        kind(house)
        settle(house)

    assert left_by(come_and_go, ROUNDS) == {}


@pytest.mark.parametrize("durable", [True, False])
def test_cursors_and_their_ranges_leave_no_object_to_the_collector(durable: bool) -> None:
    driver = journaled()
    vhost = driver.broker.vhosts["/"]
    store = Declared(driver)
    queue: Queue = queue_of(vhost, "q") if durable else vhost.declare_queue("q", {}, False, False, None, None)
    content = make_content(Properties(), b"body")

    def come_and_go() -> None:
        for _ in range(MESSAGES):
            queue.enqueue(Envelope("", "q", persistent=durable), content, 10, driver.broker.now)
        store.write()
        ask(driver, vhost, "cursor.attach", cursor="c", queues=["q"])
        token = vhost.cursors["c"].token
        first = queue.tail - MESSAGES
        ask(driver, vhost, "cursor.plan", cursor="c", token=token, upto={"q": queue.tail})
        ask(driver, vhost, "cursor.range", cursor="c", token=token, queue="q", lo=first, hi=queue.tail)
        ask(driver, vhost, "cursor.settle", cursor="c", token=token, end={"q": queue.tail})
        ask(driver, vhost, "cursor.delete", cursor="c")
        while driver.run_turn():
            pass
        store.write()
        driver.log_queue.take()
        assert queue.messages == 0

    assert left_by(come_and_go, ROUNDS) == {}
