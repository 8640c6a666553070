"""The gates besides the queues' own, on the core alone: sums with shelter, addresses, rates, the operator's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.effects import GateChanged, Unblocked
from penstock.core.gates.address_depth import AddressDepth
from penstock.core.gates.operator import ADDRESS, CONNECTION, QUEUE, SCOPES, USER, VHOST
from penstock.core.gates.rate_gate import RateGate
from penstock.core.publish.held import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.expiry import expire
from penstock.errors import NotFound
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.flow.token_bucket import TokenBucket
from tests.profiles import examples
from tests.support.broker_fixture import MIB, House, told


def in_bytes(capacity: int, stop: int, resume: int) -> Thresholds:
    return Thresholds(Level(UNLIMITED, capacity), Level(UNLIMITED, stop), Level(UNLIMITED, resume))


# Sums


def test_a_virtual_host_that_is_overfull_holds_back_publishes_to_any_of_its_queues_and_no_other() -> None:
    house = House()
    other = house.broker.add_vhost("other")
    other.declare_queue("free", {}, False, False, None, None)
    house.queue("a")
    house.queue("b")
    house.broker.gates.set_vhost_limit(house.vhost, in_bytes(1000, 800, 500))
    producer = house.producer("p")
    for _ in range(8):
        house.publish(producer, "a", 100)
    assert told(producer) == [(1, 8, True)]
    house.publish(producer, "b", 100)  # 900 > 800: it is in, and its confirmation withheld.
    house.publish(producer, "b", 100)
    house.publish(producer, "b", 100)  # It would pass the capacity of 1,000: held.
    assert (house.depth("a"), house.depth("b"), len(producer.outbox)) == (8, 2, 1)
    assert told(producer) == []
    free = Producer(house.broker, "free", HoldBudget(MIB))
    route = other.route("", "free", False)
    other.resolve(route, {})
    free.publish(route, b"x", 100_000)
    assert other.queues["free"].messages == 1
    for _ in range(4):
        house.take("a")
    assert told(producer) == []  # 600 > 500.
    house.take("a")
    house.broker.run(1000)
    assert told(producer) == [(9, 11, True)]
    assert house.depth("b") == 3


def test_lifting_or_lowering_a_virtual_hosts_bound_is_judged_at_once() -> None:
    house = House()
    house.queue("a")
    producer = house.producer("p")
    for _ in range(9):
        house.publish(producer, "a", 100)
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


def test_the_memory_alarm_stops_the_hog_and_shelters_the_others() -> None:
    house = House()
    house.queue("hog", capacity_bytes=100 * MIB)
    for number in range(9):
        house.queue(f"small{number}")
    house.broker.gates.set_memory_capacity(in_bytes(9 * MIB, 8 * MIB, 7 * MIB), MIB)
    hog, light = house.producer("hog"), house.producer("light")
    for _ in range(100):
        house.publish(hog, "hog", 256 * 1024)
    memory = house.broker.gates.memory
    assert memory is not None
    assert not memory.gate.open
    assert memory.bytes <= 9 * MIB
    assert hog.outbox or hog.closing is not None or hog.confirms.pending
    told(light)
    for number in range(9):
        house.publish(light, f"small{number}", 100_000)
    assert told(light) == [(1, 9, True)], "a queue below its share is neither held nor withheld"
    house.publish(light, "small0", 100_000)
    assert told(light) == [], "above its share it is as any other"
    assert memory.bytes <= 10 * MIB


@settings(max_examples=examples(200), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["publish", "publish", "publish", "take", "drain", "delete"]), st.integers(0, 3)),
        max_size=120,
    ),
    charge=st.sampled_from([100, 5_000, 40_000]),
    reserve=st.sampled_from([0, 100_000]),
)
def test_a_sum_is_never_overrun_and_always_found_again(steps: list[tuple[str, int]], charge: int, reserve: int) -> None:
    """Whatever the slack: the true sum stays within, what is counted is never less, and drained all is let in."""
    house = House()
    house.broker.gates.set_memory_capacity(in_bytes(1_000_000, 800_000, 600_000), reserve)
    house.broker.gates.set_vhost_limit(house.vhost, in_bytes(900_000, 700_000, 500_000))
    memory, host = house.broker.gates.memory, house.broker.gates.vhosts["/"]
    assert memory is not None
    for number in range(4):
        house.queue(f"q{number}", capacity_bytes=100 * MIB)
    producers = [house.producer(f"p{number}") for number in range(4)]
    for what, number in steps:
        if what == "publish":
            for _ in range(3):
                house.publish(producers[number], f"q{number}", charge)
        elif what == "take":
            house.take(f"q{number}")
        elif what == "drain":
            while house.take(f"q{number}"):
                pass
        else:
            house.broker.delete_queue(house.vhost.queues[f"q{number}"])
            house.queue(f"q{number}", capacity_bytes=100 * MIB)
            house.broker.run(1000)
        true = sum(int(queue.bytes) for queue in house.vhost.queues.values())
        assert true <= memory.bytes
        assert true <= host.bytes
        assert true <= 900_000
        if memory.exact:
            assert true + house.broker.gates.other_memory.bytes == memory.bytes
    for _ in range(200):
        house.broker.run(1000)
        taken = [house.take(f"q{number}") for number in range(4)]
        if not any(taken):
            break
    assert not any(producer.outbox or producer.confirms.pending for producer in producers)
    host.update_gate(house.broker.now)
    memory.update_gate(house.broker.now)
    assert (int(host.bytes), int(memory.bytes)) == (0, int(house.broker.gates.other_memory.bytes))
    assert memory.members == host.members == 4


# Addresses


def bounded_address(house: House, capacity: int, stop: int, resume: int) -> AddressDepth:
    exchange = house.vhost.declare_exchange("news", "fanout", {}, False, False, False)
    depth = AddressDepth("news", in_bytes(capacity, stop, resume), house.broker.turns)
    exchange.gates.append(depth.gate)
    house.vhost.epoch += 1
    return depth


def test_an_address_charges_each_message_once_until_the_last_queue_lets_it_go() -> None:
    house = House()
    for name in "ab":
        house.queue(name)
    depth = bounded_address(house, 1000, 800, 500)
    for name in "ab":
        house.vhost.bind("news", house.vhost.queues[name], None, "", {})
    producer = house.producer("p")
    for _ in range(9):
        house.publish(producer, "", 100, "news")
    assert (int(depth.messages), int(depth.bytes)) == (9, 900)
    assert not depth.gate.open
    for _ in range(4):
        house.take("a")
    assert int(depth.bytes) == 900
    for _ in range(4):
        house.take("b")
    assert int(depth.bytes) == 500
    assert depth.gate.open
    house.vhost.queues["a"].purge(house.broker.now)
    house.broker.delete_queue(house.vhost.queues["b"])
    assert (int(depth.messages), int(depth.bytes)) == (0, 0)


@pytest.mark.parametrize("way", ["ack", "multiple", "part", "nack", "requeue", "expire", "ring"])
def test_an_address_is_empty_whichever_way_its_messages_left(way: str) -> None:
    house = House()
    house.queue("a", **({"x_message_ttl": 1000} if way == "expire" else {}))
    if way == "ring":
        house.broker.delete_queue(house.vhost.queues["a"])
        house.queue("a", capacity_messages=2, overflow="drop-head")
    depth = bounded_address(house, 10_000, 8000, 5000)
    queue = house.vhost.queues["a"]
    house.vhost.bind("news", queue, None, "", {})
    producer = house.producer("p")
    for _ in range(5):
        house.publish(producer, "", 100, "news")
    now, session = house.broker.now, house.session
    if way == "expire":
        house.broker.begin(now + 2)
        expire(queue, house.broker.now, house.broker.now)
    elif way == "ring":
        assert int(depth.messages) == 2
        queue.purge(now)
    else:
        for _ in range(5):
            session.get(queue, False, now)
        if way == "ack":
            for tag in range(1, 6):
                session.acknowledge(tag, False, now)
        elif way == "part":
            session.acknowledge(3, True, now)
            session.acknowledge(5, True, now)
        elif way == "requeue":
            session.requeue(0, True, 0.0)
            assert int(depth.messages) == 5
            queue.purge(now)
        else:
            session.acknowledge(0, True, now)
    assert (int(depth.messages), int(depth.bytes)) == (0, 0)


# Rates


def rated(house: House, producer: Producer, messages: float, burst: float = 1.0) -> RateGate:
    rate = RateGate("producer p", house.broker.turns, house.broker.timers)
    rate.messages = TokenBucket(messages, burst)
    producer.set_gates([rate.gate])
    return rate


def test_a_rate_lets_the_first_go_at_once_and_the_others_each_in_its_time() -> None:
    house = House()
    house.queue("a")
    producer = house.producer("p")
    rated(house, producer, 10.0)
    for _ in range(5):
        house.publish(producer, "a", 100)
    assert house.depth("a") == 1
    for step in range(1, 5):
        house.broker.begin(100.0 + step * 0.1 + 0.002)
        house.broker.run(1000)
        assert house.depth("a") == 1 + step
    assert told(producer) == [(1, 5, True)]
    house.broker.begin(200.0)
    house.broker.run(1000)
    house.publish(producer, "a", 100)
    assert house.depth("a") == 6
    assert not [effect for effect in house.broker.effects() if isinstance(effect, GateChanged)], "a rate is not told"


def test_two_producers_of_one_rate_share_it_in_turn() -> None:
    house = House()
    house.queue("a")
    one, two = house.producer("one"), house.producer("two")
    rate = rated(house, one, 100.0)
    two.set_gates([rate.gate])
    for _ in range(20):
        house.publish(one, "a", 100)
    for _ in range(20):
        house.publish(two, "a", 100)
    now = 100.0
    while now < 100.15:
        now += 0.001
        house.broker.begin(now)
        house.broker.run(1000)
    assert abs(len(one.outbox) - len(two.outbox)) <= 2  # One of them was there first.
    assert 13 <= house.depth("a") <= 17


# The operator


@pytest.mark.parametrize(
    ("scope", "vhost", "name"),
    [(QUEUE, "/", "a"), (VHOST, "/", "/"), (USER, "", "alice"), (CONNECTION, "", "1"), (ADDRESS, "/", "amq.fanout")],
)
def test_what_the_operator_blocks_takes_nothing_until_it_is_unblocked(scope: str, vhost: str, name: str) -> None:
    house = House()
    house.queue("a")
    house.vhost.bind("amq.fanout", house.vhost.queues["a"], None, "", {})
    producer = house.producer("p")
    exchange = "amq.fanout" if scope == ADDRESS else ""
    house.publish(producer, "a", 100, exchange)
    house.broker.gates.block(scope, vhost, name, "too loud")
    house.publish(producer, "a", 100, exchange)
    house.publish(producer, "a", 100, exchange)
    house.broker.run(1000)
    assert (house.depth("a"), len(producer.outbox)) == (1, 2)
    assert house.take("a"), "consumers are never stopped"
    house.broker.gates.unblock(scope, vhost, name)
    house.broker.run(1000)
    assert house.depth("a") == 2
    assert told(producer) == [(1, 3, True)]
    assert not house.broker.gates.operator_gates
    assert any(isinstance(effect, Unblocked) for effect in house.broker.effects())
    house.publish(producer, "a", 100, exchange)
    assert house.depth("a") == 3
    assert producer.fast_path


@pytest.mark.parametrize("scope", SCOPES)
def test_unblocking_what_is_not_blocked_is_an_error_that_names_it(scope: str) -> None:
    house = House()
    with pytest.raises(NotFound, match=f"{scope} 'x' is not blocked by the operator"):
        house.broker.gates.unblock(scope, "/", "x")


def test_a_held_publish_that_loses_one_of_its_queues_goes_into_the_others_and_is_confirmed() -> None:
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


def test_a_held_publish_whose_queue_is_deleted_is_answered_whichever_gate_it_waits_at() -> None:
    house = House()
    house.queue("a")
    producer = house.producer("p")
    house.broker.gates.block(VHOST, "/", "/", "")
    house.publish(producer, "a", 100)
    assert len(producer.outbox) == 1
    house.broker.delete_queue(house.vhost.queues["a"])
    house.broker.run(1000)
    assert told(producer) == [(1, 1, False)]
