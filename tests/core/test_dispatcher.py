"""The schedule of queues with something to deliver."""

from __future__ import annotations

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from tests.support.broker_fixture import House


def consumed(*names: str, count: int = 3, window: int = 0) -> tuple[House, Session]:
    """Return a broker with a consumer, and so many messages, for each of these queues."""
    house, session = House(), Session()
    for name in names:
        house.queue(name)
        house.broker.consume(session, Consumer(name, session, house.vhost.queue(name), False, False, window))
        house.publish_now(name, 100, count=count)
        house.broker.schedule_delivery(house.vhost.queue(name))
    return house, session


def batches(house: House) -> list[tuple[str, int]]:
    """Take all batches: the queue and the number of messages of each."""
    found = []
    while (batch := house.broker.next_batch()) is not None:
        found.append((batch.consumer.queue.name, len(batch.messages)))
    return found


def test_dispatcher_serves_queues_in_the_order_of_the_schedule() -> None:
    house, _ = consumed("b", "a")
    assert house.broker.has_dirty()
    assert batches(house) == [("b", 3), ("a", 3)]
    assert not house.broker.has_dirty()


def test_dispatcher_lists_a_queue_once_and_only_with_a_ready_consumer() -> None:
    house, _ = consumed("a")
    house.broker.schedule_delivery(house.vhost.queue("a"))
    house.queue("alone")
    house.publish_now("alone", 100)
    house.broker.schedule_delivery(house.vhost.queue("alone"))
    assert batches(house) == [("a", 3)]


def test_dispatcher_delivers_a_queue_before_all_other_queues_on_request() -> None:
    house, _ = consumed("a", "b")
    batch = house.broker.next_batch_of(house.vhost.queue("b"))
    assert batch.consumer.queue.name == "b"
    assert batches(house) == [("a", 3)]


def test_dispatcher_stops_when_the_share_of_work_is_used_up_and_goes_on_later() -> None:
    house, _ = consumed("a", "b")
    house.broker.work.limit = house.broker.work.done
    assert house.broker.next_batch() is None
    assert house.broker.has_dirty()
    house.broker.work.limit += 1000
    assert batches(house) == [("a", 3), ("b", 3)]


def test_dispatcher_delivers_a_window_and_the_rest_after_acknowledgements() -> None:
    house, session = consumed("a", window=2)
    assert batches(house) == [("a", 2)]
    session.unsettled.acknowledge(2, True, house.broker.now)
    house.broker.schedule_delivery(house.vhost.queue("a"))
    assert batches(house) == [("a", 1)]
