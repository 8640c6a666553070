"""Publishes with and without confirms on one producer."""

from __future__ import annotations

import pytest

from penstock.core.effects import Returned
from penstock.core.publish.held import UNCONFIRMED
from penstock.core.publish.producer import Producer
from penstock.errors import ResourceError
from tests.support.broker_fixture import House, told


@pytest.fixture
def house() -> House:
    house = House("full", capacity_messages=1, hold_deadline=5)
    house.queue("long", capacity_messages=1, hold_deadline=50)
    for name in ("full", "long"):
        house.publish(house.producer("other", confirming=False), name, 100)
    return house


def publish(house: House, producer: Producer, confirming: str, queue: str = "full") -> None:
    """A publish for each letter: with a confirm for a c, without for another."""
    for letter in confirming:
        producer.confirming = letter == "c"
        house.publish(producer, queue, 100)


def test_held_publishes_pass_in_order_and_only_publishes_with_a_confirm_are_numbered(house: House) -> None:
    producer = house.producer("p")
    publish(house, producer, "-c-c-")
    assert [held.pending is not None for held in producer.outbox] == [False, True, False, True, False]
    passed = []
    for _ in range(5):
        assert house.take("full")
        passed.append(5 - len(producer.outbox))
    assert passed == [1, 2, 3, 4, 5]
    assert house.take("full")
    assert told(producer) == [(1, 2, True)]


def test_accepted_publishes_are_numbered_in_the_order_of_publishing(house: House) -> None:
    house.queue("open")
    producer = house.producer("p")
    publish(house, producer, "c--cc-", "open")
    assert told(producer) == [(1, 3, True)]


def test_publish_without_confirm_does_not_join_a_withheld_run(house: House) -> None:
    house.queue("zone", capacity_messages=100, stop_messages=1, resume_messages=0)
    producer = house.producer("p")
    publish(house, producer, "ccc-c", "zone")
    assert (house.depth("zone"), producer.confirms.published) == (5, 4)
    for _ in range(5):
        assert house.take("zone")
    assert told(producer) == [(1, 4, True)]


def test_refused_publish_with_a_confirm_keeps_the_session_open(house: House) -> None:
    producer = house.producer("p")
    publish(house, producer, "cc")
    house.at(101.0)
    publish(house, producer, "-", "long")
    house.at(105.0)
    assert told(producer) == [(1, 1, False), (2, 2, False)]
    assert (producer.closing, len(producer.outbox)) == (None, 1)
    assert house.take("long")
    assert (len(producer.outbox), told(producer)) == (0, [])


def test_refused_publish_without_a_confirm_closes_the_session(house: House) -> None:
    producer = house.producer("p")
    publish(house, producer, "c")
    house.at(101.0)
    publish(house, producer, "-")
    publish(house, producer, "c", "long")
    house.at(105.0)
    assert (told(producer), producer.closing) == ([(1, 1, False)], None)
    house.at(106.0)
    assert isinstance(producer.closing, ResourceError)
    (outcome,) = producer.confirms.take()
    assert outcome.refusal.describe().startswith("dropped, because its session closes: publish to exchange ''")
    assert (len(producer.outbox), producer.hold_budget.messages) == (0, 0)


def test_mandatory_publish_with_a_confirm_is_returned_at_the_deadline(house: House) -> None:
    producer = house.producer("p")
    route = house.vhost.route("", "full", True)
    house.vhost.resolve(route, {})
    for content in (b"first", b"second"):
        producer.confirming = True
        producer.publish(route, content, 100)
        producer.confirming = False
    house.at(105.0)
    returned = [effect.content for effect in house.broker.effects() if isinstance(effect, Returned)]
    assert (returned, producer.closing) == ([b"first", b"second"], None)


def test_session_that_closes_normally_keeps_unconfirmed_publishes_in_line(house: House) -> None:
    producer = house.producer("p")
    publish(house, producer, "c-c-")
    producer.close_gracefully()
    assert (producer.loss.cause, producer.loss.messages, len(producer.outbox)) == (UNCONFIRMED, 2, 2)
    for left in (1, 0):
        assert house.take("full")
        assert len(producer.outbox) == left
    assert house.depth("full") == 1
    assert house.take("full")
    assert house.broker.closed_session_budget.producers == {}
