"""The overflow policy `reject`."""

from __future__ import annotations

from penstock.core.queue.overflow import POLICIES
from tests.support.broker_fixture import House, told


def test_reject_policy_refuses_publishes_above_the_capacity() -> None:
    house = House("a", capacity_messages=2, overflow="reject")
    producer = house.published("p", "a", 100, count=3)
    assert told(producer) == [(3, 3, False), (1, 2, True)]
    house.take("a")
    house.publish(producer, "a", 100)
    assert told(producer) == [(4, 4, True)]


def test_reject_returns_refused_messages_and_dead_letters_none() -> None:
    assert POLICIES["reject"].returns_refused
    assert not POLICIES["reject"].dead_letters
