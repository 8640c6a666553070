"""References of ended objects: when they are cut."""

from __future__ import annotations

from penstock.core.consume.consumer import Consumer
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import NO_CLIENT, ProducerListener
from penstock.core.unlinking import GONE, unlink
from tests.support.broker_fixture import House


def test_deleted_queue_without_messages_is_unlinked_and_a_repetition_changes_nothing() -> None:
    house = House("q")
    queue = house.vhost.queues["q"]
    house.broker.delete_queue(queue)
    ended = house.broker.take_ended()
    assert queue in ended
    for _ in range(2):
        unlink(ended)
        assert (queue.gate.owner, queue.membership.queue, queue.reserved.queue) == (None, GONE, GONE)


def test_deleted_queue_is_unlinked_with_the_last_unacknowledged_message() -> None:
    house = House("q")
    queue = house.vhost.queues["q"]
    house.publish_now("q", 100)
    house.session.take_batch(Consumer("c", house.session, queue, False, False, 0), 1, 100.0)
    house.broker.delete_queue(queue)
    unlink([queue])
    assert queue.gate.owner is queue
    house.broker.take_ended()
    house.session.unsettled.acknowledge(1, False, 100.0)
    unlink(house.broker.take_ended())
    assert queue.gate.owner is None


def test_deleted_queue_is_unlinked_from_its_delayed_messages() -> None:
    house = House("q")
    queue = house.vhost.queues["q"]
    route = house.vhost.route("", "q", False)
    house.vhost.resolve(route, {})
    house.producer("p").publish(route.delayed(200.0), b"x", 100)
    assert queue.delays is not None
    house.broker.delete_queue(queue)
    unlink(house.broker.take_ended())
    assert queue.delays is None


def test_producer_is_unlinked_from_the_client_when_the_last_effects_were_dispatched() -> None:
    house = House()
    listener = ProducerListener()
    producer = Producer(house.broker, "p", HoldBudget(1000), None, listener)
    assert house.broker.take_ended() == []
    producer.abort()
    assert producer.listener is listener
    unlink(house.broker.take_ended())
    assert producer.listener is NO_CLIENT
