"""Rates of consumers: the most that they get, and the least that they must take."""

from __future__ import annotations

import random

import pytest

from penstock.core.effects import Cancelled, SlowConsumer
from tests.support.broker_fixture import House, most_in_a_second
from tests.support.limited_consumers import deliver, filled, settle_all, subscribe


def test_a_rate_gives_the_first_at_once_and_the_rest_in_time() -> None:
    house = filled([10] * 5)
    consumer = subscribe(house, consumer_max_rate=10)
    assert deliver(house) == [10]
    assert consumer.obstacles(house.broker.now) == ["at its rate of 10 messages/s, the next one in 101 ms"]
    for step in range(1, 5):
        house.broker.begin(100.0 + step * 0.102)
        assert deliver(house) == [10]
    assert house.broker.next_deadline() is not None
    house.broker.begin(110.0)
    assert deliver(house) == []
    house.publish_now("a", 10)
    house.broker.schedule_delivery(consumer.queue)
    assert deliver(house) == [10]


@pytest.mark.parametrize("rate", [10, 1000])
def test_consumer_gets_at_most_one_message_more_than_its_rate_in_any_second(rate: int) -> None:
    house = filled([10] * 3 * rate)
    subscribe(house, consumer_max_rate=rate)
    delivered: list[float] = []
    late = random.Random(1)
    house.broker.begin(200.0)  # Idle before: nothing is stored for later.
    while house.broker.now < 202.5:
        delivered += [house.broker.now] * len(deliver(house))
        house.broker.begin(house.broker.now + late.uniform(0.0005, 0.02))
    assert most_in_a_second(delivered) <= rate + 1


def slowness(house: House, seconds: float) -> list[SlowConsumer | Cancelled]:
    house.later(seconds)
    return [effect for effect in house.broker.effects() if isinstance(effect, SlowConsumer | Cancelled)]


def test_a_slow_consumer_is_told_of_once_for_as_long_as_it_is_slow() -> None:
    house = filled([10] * 100)
    consumer = subscribe(house, slow_consumer_rate=5, slow_consumer_period=2, consumer_window_bytes=0)
    deliver(house)
    (told,) = slowness(house, 2.0)
    assert isinstance(told, SlowConsumer)
    assert (told.rate, told.least, told.cancelled) == (0.0, 5.0, False)
    assert slowness(house, 2.0) == []
    for _ in range(12):
        settle_all(house, consumer)
        deliver(house)
    assert slowness(house, 2.0) == []
    assert len(slowness(house, 2.0)) == 1


def test_an_idle_queue_accuses_nobody() -> None:
    house = filled([10])
    consumer = subscribe(house, slow_consumer_rate=5, slow_consumer_period=2)
    deliver(house)
    assert slowness(house, 2.0) == []
    settle_all(house, consumer)
    assert slowness(house, 2.0) == []
    house.broker.begin(house.broker.now + 1.9)
    house.broker.run(0)
    house.publish_now("a", 10)
    assert slowness(house, 0.1) == [], "it has not waited for a whole period"


def test_a_slow_consumer_may_be_cancelled_and_nothing_else() -> None:
    house = filled([10] * 10)
    slow = subscribe(house, slow_consumer_rate=5, slow_consumer_period=2, slow_consumer_policy="cancel",
                     consumer_window_bytes=0)  # fmt: skip
    deliver(house)
    told = slowness(house, 2.0)
    assert [type(effect) for effect in told] == [SlowConsumer, Cancelled]
    assert slow not in house.vhost.queues["a"].consumers
    assert int(house.vhost.queues["a"].unacked_messages) == 1, "what it has stays with its session"
    assert slowness(house, 10.0) == []
