"""Counts of publishers: accepted, confirmed and unroutable publishes."""

from __future__ import annotations

from penstock.core.publish.connection_gates import add_counts, take_counts
from penstock.core.publish.producer import Producer
from penstock.flow.series import Tally
from tests.support.broker_fixture import House


def counts(producer: Producer) -> tuple[int, int, int, int]:
    tally = Tally()
    add_counts(producer, tally)
    return int(tally.publish), int(tally.confirm), int(tally.return_unroutable), int(tally.drop_unroutable)


def test_publisher_counts_accepted_unroutable_and_confirmed_publishes() -> None:
    house = House("q", x_max_length=2, x_overflow="reject-publish")
    producer = house.producer("p")
    for key in ("q", "q", "q", "nowhere"):
        house.publish(producer, key, 100)
    assert counts(producer) == (4, 0, 0, 1)
    producer.confirms.take()
    assert counts(producer) == (4, 3, 0, 1), "the refused one has no confirm"


def test_held_publish_is_counted_when_passing() -> None:
    house = House("q", capacity_messages=1)
    producer = house.published("p", "q", 100, count=2)
    assert counts(producer)[0] == 1
    house.take("q")
    assert counts(producer)[0] == 2


def test_taken_counts_are_moved_and_counting_goes_on() -> None:
    house = House("q")
    producer = house.published("p", "q", 100)
    house.publish(producer, "nowhere", 100)
    producer.confirms.take()
    taken = Tally()
    take_counts(producer, taken)
    assert (int(taken.publish), int(taken.confirm)) == (2, 2)
    assert counts(producer) == (0, 0, 0, 0)
    house.publish(producer, "q", 100)
    producer.confirms.take()
    assert counts(producer) == (1, 1, 0, 0)


def test_connection_has_the_counts_of_ended_publishers() -> None:
    house = House("q")
    producer = house.published("p", "q", 100)
    producer.confirms.take()
    producer.abort()
    assert (int(house.origin.counts.publish), int(house.origin.counts.confirm)) == (1, 1)
