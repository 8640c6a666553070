"""Publishes in a row behind a closed gate: they go the short way exactly as long as the long one would say the same."""

from __future__ import annotations

import pytest

from penstock.core.publish.producer import Producer
from penstock.errors import PreconditionFailed
from tests.support.broker_fixture import House, told
from tests.support.repeated_publishes import publish


@pytest.fixture
def house() -> House:
    return House("a", capacity_messages=10, stop_messages=3, resume_messages=1, hold_deadline=5)


def withheld(producer: Producer) -> list[tuple[int, int, float]]:
    """First, last and deadline of what is withheld."""
    return [(int(each.first), int(each.number), each.deadline) for each in producer.confirms.pending]


def test_a_row_is_withheld_as_one_and_counted_one_by_one(house: House) -> None:
    producer = house.producer("p")
    publish(house, producer, 9)
    assert withheld(producer) == [(4, 9, 105.0)]
    assert producer.withheld_run is not None
    assert told(producer) == [(1, 3, True)]
    (block,) = house.vhost.queues["a"].gate.stats.blocks.values()
    assert (block.withheld, block.withheld_bytes) == (6, 600)
    assert house.vhost.queues["a"].tail == 9


def test_a_row_ends_at_the_capacity_and_the_next_is_held(house: House) -> None:
    producer = house.producer("p")
    publish(house, producer, 12)
    assert (house.depth("a"), len(producer.outbox), producer.withheld_run) == (10, 2, None)
    assert withheld(producer)[0] == (4, 10, 105.0)


def test_nobody_in_a_row_goes_past_those_who_wait(house: House) -> None:
    large, small = house.producer("large"), house.producer("small")
    house.queue("bytes", capacity_bytes=1000, stop_bytes=300, resume_bytes=100)
    publish(house, small, 5, "bytes")
    house.publish(large, "bytes", 600)
    assert len(large.outbox) == 1
    publish(house, small, 1, "bytes")
    assert len(small.outbox) == 1, "there is room for it, but somebody waits"


def test_a_row_ends_with_the_turn_for_the_next_has_a_later_deadline(house: House) -> None:
    producer = house.producer("p")
    publish(house, producer, 5)
    house.broker.begin(101.0)
    publish(house, producer, 2)
    assert withheld(producer) == [(4, 5, 105.0), (6, 7, 106.0)]


def test_a_gate_that_opens_ends_the_row(house: House) -> None:
    producer = house.producer("p")
    publish(house, producer, 5)
    for _ in range(4):
        assert house.take("a")
    publish(house, producer, 1)
    assert told(producer) == [(1, 6, True)]


def test_another_queue_between_does_not_join(house: House) -> None:
    house.queue("b")
    producer = house.producer("p")
    publish(house, producer, 5)
    publish(house, producer, 1, "b")
    publish(house, producer, 1)
    assert (house.depth("a"), house.depth("b")) == (6, 1)
    assert [each[:2] for each in withheld(producer)] == [(4, 5), (6, 6), (7, 7)]


def test_a_lowered_capacity_counts_in_the_same_turn(house: House) -> None:
    def say(capacity: int) -> None:
        words = {"capacity-messages": capacity, "stop-messages": 3, "resume-messages": 1}
        house.set("queue", "said", **dict(words))

    say(10)
    house.queue("said")
    producer = house.producer("p")
    publish(house, producer, 5, "said")
    say(6)
    publish(house, producer, 2, "said")
    assert (house.depth("said"), len(producer.outbox)) == (6, 1)


def test_a_producer_that_is_closed_joins_nothing(house: House) -> None:
    producer = house.producer("p")
    publish(house, producer, 5)
    producer.close(PreconditionFailed("enough"))
    publish(house, producer, 1)
    assert house.depth("a") == 5
