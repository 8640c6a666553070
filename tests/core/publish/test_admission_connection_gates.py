"""Gates of a connection and its user: rates and weights, changed while everything runs."""

from __future__ import annotations

from penstock.core.publish.admission import ConnectionGates
from tests.support import at_once
from tests.support.broker_fixture import House


def test_rate_of_a_user_is_shared_by_its_connections_and_that_of_a_connection_is_its_own() -> None:
    house = House("a")
    other = ConnectionGates("alice", "2")
    house.broker.gates.add_connection(other)
    first, second = house.producer("first"), house.producer("second", origin=other)
    house.set("user", "alice", rate_messages=10, burst_messages=2)
    for producer in (first, second):
        house.publish(producer, "a", 100, count=5)
    assert house.depth("a") == 2
    house.later(0.25)
    assert house.depth("a") == 4
    at_once.remove(house.broker, "user", "alice", [])
    house.broker.run(1000)
    assert house.depth("a") == 10
    assert first.fast_path
    assert second.fast_path
    house.set("connection", "#", rate_messages=10, burst_messages=2)
    for producer in (first, second):
        house.publish(producer, "a", 100, count=5)
    assert house.depth("a") == 14, "each connection has its own"


def test_users_weight_is_its_producers_share_of_the_turns() -> None:
    house = House("a", capacity_messages=20, stop_messages=19, resume_messages=10)
    bob = ConnectionGates("bob", "2")
    house.broker.gates.add_connection(bob)
    light, heavy = house.producer("light"), house.producer("heavy", origin=bob)
    house.set("user", "bob", weight=3)
    filler = house.producer("filler")
    filler.confirming = False  # Nobody waits for it to return.
    house.publish(filler, "a", 100, count=20)
    for _ in range(40):
        house.publish(light, "a", 100)
        house.publish(heavy, "a", 100)
    before = len(light.outbox), len(heavy.outbox)
    house.take("a", count=20)
    passed = before[0] - len(light.outbox), before[1] - len(heavy.outbox)
    assert sum(passed) >= 8
    assert abs(passed[1] - 3 * passed[0]) <= 3
