"""Settings of other scopes than queues, changed while everything runs: the gates follow at once."""

from __future__ import annotations

import pytest

from penstock.core.gates.connection_gates import ConnectionGates
from penstock.core.settings import changes
from penstock.setting_names import read_settings
from tests.support.broker_fixture import House, told


def say(house: House, scope: str, pattern: str, **settings: object) -> None:
    words = read_settings(scope, pattern, {name.replace("_", "-"): value for name, value in settings.items()})
    changes.set_settings(house.broker, scope, pattern, words)


def later(house: House, seconds: float) -> None:
    house.broker.begin(house.broker.now + seconds)
    house.broker.run(1000)


def test_a_virtual_hosts_capacity_can_be_set_lowered_and_taken_back() -> None:
    house = House()
    house.queue("a")
    producer = house.producer("p")
    say(house, "vhost", "#", capacity_bytes=1000)
    for _ in range(12):
        house.publish(producer, "a", 100)
    assert (house.depth("a"), len(producer.outbox)) == (10, 2)
    say(house, "vhost", "/", capacity_bytes=1100)
    changes.remove(house.broker, "vhost", "#", [])
    house.broker.run(1000)
    assert house.depth("a") == 10, "1,000 is above the resume threshold of 481"
    changes.remove(house.broker, "vhost", "/", [])
    house.broker.run(1000)
    assert house.depth("a") == 12
    assert told(producer) == [(1, 12, True)]


def test_the_rate_of_a_user_is_shared_by_its_connections_and_that_of_a_connection_is_its_own() -> None:
    house = House()
    house.queue("a")
    other = ConnectionGates("alice", "2")
    house.broker.gates.add_connection(other)
    first, second = house.producer("first"), house.producer("second", origin=other)
    say(house, "user", "alice", rate_messages=10, burst_messages=2)
    for producer in (first, second):
        for _ in range(5):
            house.publish(producer, "a", 100)
    assert house.depth("a") == 2
    later(house, 0.25)
    assert house.depth("a") == 4
    changes.remove(house.broker, "user", "alice", [])
    house.broker.run(1000)
    assert house.depth("a") == 10
    assert first.fast_path
    assert second.fast_path
    say(house, "connection", "#", rate_messages=10, burst_messages=2)
    for producer in (first, second):
        for _ in range(5):
            house.publish(producer, "a", 100)
    assert house.depth("a") == 14, "each connection has its own"


@pytest.mark.parametrize("scope", ["producer", "connection", "user"])
def test_a_rate_in_bytes_lets_a_large_message_pass_and_then_makes_it_pay(scope: str) -> None:
    house = House()
    house.queue("a")
    producer = house.producer("p")
    say(house, scope, "alice", rate_bytes=1000, burst_bytes=100)
    house.publish(producer, "a", 1100)
    house.publish(producer, "a", 10)
    assert house.depth("a") == 1
    later(house, 0.9)
    assert house.depth("a") == 1
    later(house, 0.2)
    assert house.depth("a") == 2


def test_an_address_has_a_rate_and_a_depth_by_pattern() -> None:
    house = House()
    house.queue("a")
    house.vhost.declare_exchange("news.sport", "fanout", {}, False, False, False)
    house.vhost.bind("news.sport", house.vhost.queues["a"], None, "", {})
    producer = house.producer("p")
    say(house, "address", "news.*", capacity_messages=4, stop_messages=3, rate_messages=1000, burst_messages=3)
    for _ in range(6):
        house.publish(producer, "", 100, "news.sport")
    assert house.depth("a") == 3
    later(house, 1.0)
    assert house.depth("a") == 4
    changes.remove(house.broker, "address", "news.*", ["capacity-messages", "stop-messages"])
    later(house, 1.0)
    assert house.depth("a") == 6
    assert told(producer) == [(1, 6, True)]
    house.vhost.delete_exchange("news.sport", False)
    assert not house.broker.gates.address_rates
    assert not house.broker.gates.depths


def test_memory_is_a_share_of_the_machine_unless_it_is_said() -> None:
    house = House()
    gates = house.broker.gates
    assert gates.memory is None, "this machine has not said how much it has"
    house.broker.table.machine_bytes = 1_000_000
    gates.set_memory_limit(house.broker.table.limits("broker", ""))
    assert gates.memory is not None
    assert (int(gates.memory.thresholds.capacity.bytes), int(gates.memory.reserve)) == (360_000, 40_000)
    say(house, "broker", "", memory_capacity=100_000)
    assert (int(gates.memory.thresholds.capacity.bytes), int(gates.memory.reserve)) == (90_000, 10_000)
    assert int(gates.memory.thresholds.stop.bytes) == 80_000
    changes.remove(house.broker, "broker", "", [])
    assert int(gates.memory.thresholds.capacity.bytes) == 360_000


def test_a_users_weight_is_its_producers_share_of_the_turns() -> None:
    house = House()
    house.queue("a", capacity_messages=20, stop_messages=19, resume_messages=10)
    bob = ConnectionGates("bob", "2")
    house.broker.gates.add_connection(bob)
    light, heavy = house.producer("light"), house.producer("heavy", origin=bob)
    say(house, "user", "bob", weight=3)
    filler = house.producer("filler")
    for _ in range(20):
        house.publish(filler, "a", 100)
    for _ in range(40):
        house.publish(light, "a", 100)
        house.publish(heavy, "a", 100)
    before = len(light.outbox), len(heavy.outbox)
    for _ in range(20):
        house.take("a")
    passed = before[0] - len(light.outbox), before[1] - len(heavy.outbox)
    assert sum(passed) >= 8
    assert abs(passed[1] - 3 * passed[0]) <= 3
