"""Gates that limit a rate."""

from __future__ import annotations

import random

import pytest

from penstock.core.effects import GateChanged
from penstock.core.gates.rate_gate import RateGate
from penstock.core.publish.producer import Producer
from penstock.flow.token_bucket import TokenBucket
from tests.support.broker_fixture import House, most_in_a_second, told


def rated(house: House, producer: Producer, messages: float, burst: float = 1.0) -> RateGate:
    rate = RateGate("producer p", house.broker.turns, house.broker.timers)
    rate.passes.messages = TokenBucket(messages, burst)
    producer.set_gates([rate.gate])
    return rate


def test_rate_passes_the_first_message_at_once_and_each_later_message_in_time() -> None:
    house = House("a")
    producer = house.producer("p")
    rated(house, producer, 10.0)
    house.publish(producer, "a", 100, count=5)
    assert house.depth("a") == 1
    for step in range(1, 5):
        house.at(100.0 + step * 0.1 + 0.002)
        assert house.depth("a") == 1 + step
    assert told(producer) == [(1, 5, True)]
    house.at(200.0)
    house.publish(producer, "a", 100)
    assert house.depth("a") == 6
    assert not [effect for effect in house.broker.effects() if isinstance(effect, GateChanged)], "a rate is not told"


def test_producers_at_the_same_rate_share_the_rate_in_turn() -> None:
    house = House("a")
    one, two = house.producer("one"), house.producer("two")
    rate = rated(house, one, 100.0)
    two.set_gates([rate.gate])
    house.publish(one, "a", 100, count=20)
    house.publish(two, "a", 100, count=20)
    now = 100.0
    while now < 100.15:
        now += 0.001
        house.at(now)
    assert abs(len(one.outbox) - len(two.outbox)) <= 2  # One of them was there first.
    assert 13 <= house.depth("a") <= 17


@pytest.mark.parametrize("scope", ["producer", "connection", "user", "address"])
@pytest.mark.parametrize("rate", [3, 10, 1000])
def test_rate_passes_a_message_more_in_any_second_also_after_idle_time(scope: str, rate: int) -> None:
    house = House("a")
    house.vhost.bind("amq.fanout", house.vhost.queues["a"], None, "", {})
    producer = house.producer("p")
    house.set(scope, "amq.fanout" if scope == "address" else "alice", rate_messages=rate)
    house.later(10.0)
    late = random.Random(2)
    begun = house.broker.now
    passed: list[float] = []
    while house.broker.now < begun + 2.5:
        house.publish(producer, "", 100, "amq.fanout", count=min(rate, 3 * rate - len(passed) - len(producer.outbox)))
        passed += [house.broker.now] * (house.depth("a") - len(passed))
        house.later(late.uniform(0.0002, 0.004))
    assert passed[0] == begun
    assert most_in_a_second(passed) <= rate + 1
    assert len(passed) >= int(0.98 * 2.5 * rate)


def test_rates_burst_passes_at_once_if_set() -> None:
    house = House("a")
    producer = house.producer("p")
    house.set("producer", "alice", rate_messages=10, burst_messages=5)
    house.publish(producer, "a", 100, count=20)
    assert house.depth("a") == 5


@pytest.mark.parametrize("scope", ["producer", "connection", "user"])
def test_rate_in_bytes_passes_a_large_message_and_then_delays_the_next(scope: str) -> None:
    house = House("a")
    producer = house.producer("p")
    house.set(scope, "alice", rate_bytes=1000, burst_bytes=100)
    house.publish(producer, "a", 1100)
    house.publish(producer, "a", 10)
    assert house.depth("a") == 1
    house.later(0.9)
    assert house.depth("a") == 1
    house.later(0.2)
    assert house.depth("a") == 2
