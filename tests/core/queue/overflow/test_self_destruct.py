"""The overflow policy `self-destruct`."""

from __future__ import annotations

from tests.support.broker_fixture import House, told


def test_self_destruct_deletes_the_queue_that_would_be_overrun() -> None:
    house = House("a", capacity_messages=2, overflow="self-destruct")
    producer = house.published("p", "a", 100, count=3)
    assert told(producer) == [(3, 3, False), (1, 2, True)]
    assert "a" not in house.vhost.queues
