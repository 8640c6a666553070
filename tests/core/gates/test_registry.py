"""The gates besides those of queues: limits of virtual hosts and of the memory, and held publishes behind them."""

from __future__ import annotations

from penstock.core.gates.operator import VHOST
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from tests.support import at_once
from tests.support.broker_fixture import MIB, House, told
from tests.support.setting_values import in_bytes
from tests.support.topology import resolve


def test_overfull_virtual_host_withholds_publishes_to_the_own_queues_only() -> None:
    house = House()
    other = house.broker.add_vhost("other")
    other.declare_queue("free", {}, False, False, None, None)
    house.queue("a", "b")
    house.broker.gates.set_vhost_limit(house.vhost, in_bytes(1000, 800, 500))
    producer = house.published("p", "a", 100, count=8)
    assert told(producer) == [(1, 8, True)]
    house.publish(producer, "b", 100)  # 900 > 800: it is in, and its confirmation withheld.
    house.publish(producer, "b", 100)
    house.publish(producer, "b", 100)  # It would pass the capacity of 1,000: held.
    assert (house.depth("a"), house.depth("b"), len(producer.outbox)) == (8, 2, 1)
    assert told(producer) == []
    free = Producer(house.broker, "free", HoldBudget(MIB))
    route = resolve(other, "", "free")
    free.publish(route, b"x", 100_000)
    assert other.queues["free"].messages == 1
    house.take("a", count=4)
    assert told(producer) == []  # 600 > 500.
    house.take("a")
    house.broker.run(1000)
    assert told(producer) == [(9, 11, True)]
    assert house.depth("b") == 3


def test_lifting_or_lowering_a_virtual_hosts_bound_is_judged_at_once() -> None:
    house = House("a")
    producer = house.published("p", "a", 100, count=9)
    house.broker.gates.set_vhost_limit(house.vhost, in_bytes(1000, 800, 500))
    pool = house.broker.gates.vhosts["/"]
    assert not pool.gate.open
    house.broker.gates.set_vhost_limit(house.vhost, in_bytes(2000, 1600, 1000))
    assert pool.gate.open
    house.broker.gates.set_vhost_limit(house.vhost, in_bytes(900, 850, 500))
    told(producer)
    house.publish(producer, "a", 100)
    assert len(producer.outbox) == 1
    house.broker.gates.set_vhost_limit(house.vhost, None)
    house.broker.run(1000)
    assert house.depth("a") == 10
    assert not producer.outbox
    assert told(producer) == [(10, 10, True)]


def test_held_publish_whose_queue_is_deleted_enters_the_remaining_queues() -> None:
    house = House()
    for name in "ab":
        house.queue(name)
        house.vhost.bind("amq.fanout", house.vhost.queues[name], None, "", {})
    producer = house.producer("p")
    house.broker.gates.block(VHOST, "/", "/", "")
    house.publish(producer, "", 100, "amq.fanout")
    house.broker.delete_queue(house.vhost.queues["b"])
    house.broker.gates.unblock(VHOST, "/", "/")
    house.broker.run(1000)
    assert house.depth("a") == 1
    assert told(producer) == [(1, 1, True)]


def test_held_publish_whose_queue_is_deleted_is_answered_at_any_gate() -> None:
    house = House("a")
    producer = house.producer("p")
    house.broker.gates.block(VHOST, "/", "/", "")
    house.publish(producer, "a", 100)
    assert len(producer.outbox) == 1
    house.broker.delete_queue(house.vhost.queues["a"])
    while house.broker.run(1000):
        pass
    assert told(producer) == [(1, 1, False)]


def test_delivery_that_returns_to_a_deleted_queue_leaves_the_sums() -> None:
    house = House()
    house.set("vhost", "/", capacity_bytes=10_000)
    house.queue("a")
    house.publish(house.producer("p"), "a", 100)
    house.session.get(house.vhost.queues["a"], False, house.broker.now)
    house.broker.delete_queue(house.vhost.queues["a"])
    contents = house.broker.gates.vhosts["/"]
    assert contents.exact_measure(house.broker.now).bytes == 100
    house.broker.end_session(house.session)
    assert contents.exact_measure(house.broker.now).bytes == 0


def test_virtual_hosts_capacity_can_be_set_lowered_and_taken_back() -> None:
    house = House("a")
    producer = house.producer("p")
    house.set("vhost", "#", capacity_bytes=1000)
    house.publish(producer, "a", 100, count=12)
    assert (house.depth("a"), len(producer.outbox)) == (10, 2)
    house.set("vhost", "/", capacity_bytes=1100)
    at_once.remove(house.broker, "vhost", "#", [])
    house.broker.run(1000)
    assert house.depth("a") == 10, "1,000 is above the resume threshold of 481"
    at_once.remove(house.broker, "vhost", "/", [])
    house.broker.run(1000)
    assert house.depth("a") == 12
    assert told(producer) == [(1, 12, True)]


def test_memory_limit_is_a_share_of_the_machine_by_default() -> None:
    house = House()
    gates = house.broker.gates
    assert gates.memory is None, "this machine has not said how much it has"
    house.broker.table.machine_bytes = 1_000_000
    gates.set_memory_limit(house.broker.table.limits("broker", ""))
    assert (int(gates.memory.thresholds.capacity.bytes), int(gates.memory.reserve)) == (360_000, 40_000)
    house.set("broker", "", memory_capacity=100_000)
    assert (int(gates.memory.thresholds.capacity.bytes), int(gates.memory.reserve)) == (90_000, 10_000)
    assert int(gates.memory.thresholds.stop.bytes) == 80_000
    at_once.remove(house.broker, "broker", "", [])
    assert int(gates.memory.thresholds.capacity.bytes) == 360_000
