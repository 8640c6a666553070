"""The overflow policy `drop-new`."""

from __future__ import annotations

from tests.support.broker_fixture import House, told


def test_drop_new_refuses_the_newest_message_without_a_confirm() -> None:
    house = House("a", capacity_messages=2, overflow="drop-new")
    producer = house.published("p", "a", 100, count=3)
    assert told(producer) == [(3, 3, False), (1, 2, True)]
    assert int(house.vhost.queues["a"].counters.refused) == 1
