"""The overflow policy `block`."""

from __future__ import annotations

from penstock.core.queue.overflow.policy import HOLD
from tests.support.broker_fixture import House, told


def test_block_policy_holds_publishes_above_the_capacity_until_there_is_room() -> None:
    house = House("a", capacity_messages=2)
    producer = house.published("p", "a", 100, count=3)
    assert (house.depth("a"), len(producer.outbox)) == (2, 1)
    assert house.vhost.queues["a"].verdict(1, 100, 100) == HOLD
    house.take("a", count=2)
    assert (house.depth("a"), len(producer.outbox)) == (1, 0)
    assert told(producer)[-1] == (1, 3, True)


def test_block_has_thresholds_below_the_capacity_by_default() -> None:
    house = House("a", capacity_messages=100)
    thresholds = house.vhost.queues["a"].thresholds
    assert (thresholds.stop.messages, thresholds.resume.messages) == (80, 70)
