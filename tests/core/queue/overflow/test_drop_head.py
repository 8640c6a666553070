"""The overflow policy `drop-head`."""

from __future__ import annotations

from penstock.core.queue.overflow.policy import ACCEPT, REFUSE
from tests.support.broker_fixture import House, told


def test_drop_head_drops_as_many_of_the_oldest_as_the_newest_needs() -> None:
    house = House("a", capacity_bytes=1000, overflow="drop-head")
    producer = house.producer("p")
    for charge in (300, 300, 300, 500):
        house.publish(producer, "a", charge)
    queue = house.vhost.queues["a"]
    assert sorted(int(message.sequence) for message in queue.ready_queue.messages()) == [3, 4]
    assert int(queue.counters.dropped) == 2
    assert told(producer) == [(1, 4, True)]


def test_drop_head_drops_no_delivered_message() -> None:
    house = House("a", capacity_messages=2, overflow="drop-head")
    queue = house.vhost.queues["a"]
    house.publish_now("a", 100, count=2)
    assert queue.verdict(1, 100, 100) == ACCEPT
    for _ in range(2):
        house.session.get(queue, False, 100.0)
    assert queue.verdict(1, 100, 100) == REFUSE
