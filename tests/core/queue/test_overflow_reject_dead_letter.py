"""The overflow policy `reject-dead-letter`."""

from __future__ import annotations

from tests.support.broker_fixture import House, told


def test_reject_dead_letter_refuses_a_message_and_sends_it_to_the_dead_letter_exchange() -> None:
    house = House("dead")
    house.queue(
        "a",
        capacity_messages=1,
        overflow="reject-dead-letter",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
    )
    producer = house.producer("p")
    house.publish(producer, "a", 100, count=2)
    assert told(producer) == [(2, 2, False), (1, 1, True)]
    house.broker.run(1000)
    assert (house.depth("a"), house.depth("dead")) == (1, 1)


def test_reject_dead_letter_without_a_dead_letter_exchange_only_refuses() -> None:
    house = House("a", capacity_messages=1, overflow="reject-dead-letter")
    producer = house.producer("p")
    house.publish(producer, "a", 100, count=2)
    assert told(producer) == [(2, 2, False), (1, 1, True)]
    assert house.depth("a") == 1
