"""The overflow policy `ring-strict`."""

from __future__ import annotations

from tests.support.broker_fixture import House, told


def test_ring_strict_refuses_while_a_message_is_with_a_consumer() -> None:
    house = House("a", capacity_messages=2, overflow="ring-strict")
    producer = house.published("p", "a", 100, count=3)
    assert told(producer) == [(1, 3, True)]
    assert int(house.vhost.queues["a"].counters.dropped) == 1
    assert house.session.get(house.vhost.queues["a"], False, 100.0) is not None
    house.publish(producer, "a", 100)
    assert told(producer) == [(4, 4, False)]
    house.session.unsettled.acknowledge(1, False, 100.0)
    house.publish(producer, "a", 100)
    assert told(producer) == [(5, 5, True)]
