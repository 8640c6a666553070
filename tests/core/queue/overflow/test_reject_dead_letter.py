"""The overflow policy `reject-dead-letter`."""

from __future__ import annotations

from tests.support.broker_fixture import House, told


def test_reject_dead_letter_without_a_dead_letter_exchange_only_refuses() -> None:
    house = House("a", capacity_messages=1, overflow="reject-dead-letter")
    producer = house.published("p", "a", 100, count=2)
    assert told(producer) == [(2, 2, False), (1, 1, True)]
    assert house.depth("a") == 1
