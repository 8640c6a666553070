"""Queues as members of shared limits: slack, guaranteed shares, and sums that are never exceeded."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import examples
from tests.support.broker_fixture import MIB, House, told
from tests.support.setting_values import in_bytes


def test_memory_alarm_stops_the_largest_queue_and_shelters_the_rest() -> None:
    house = House("hog", capacity_bytes=100 * MIB)
    for number in range(9):
        house.queue(f"small{number}")
    house.broker.gates.set_memory_capacity(in_bytes(9 * MIB, 8 * MIB, 7 * MIB), MIB)
    hog, light = house.producer("hog"), house.producer("light")
    house.publish(hog, "hog", 256 * 1024, count=100)
    memory = house.broker.gates.memory
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
def test_sum_is_never_overrun_and_always_found_again(steps: list[tuple[str, int]], charge: int, reserve: int) -> None:
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
            house.publish(producers[number], f"q{number}", charge, count=3)
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


def test_large_publish_that_waits_at_a_sum_learns_of_each_decrease() -> None:
    house = House()
    limit = in_bytes(1_000 * MIB, 900 * MIB, 800 * MIB)
    house.broker.gates.set_vhost_limit(house.vhost, limit)
    for name in "ab":
        house.queue(name, capacity_bytes=5_000 * MIB)
    producer, large = house.producer("p"), house.producer("large")
    house.publish(producer, "a", 5 * MIB, count=100)
    assert not house.broker.gates.vhosts["/"].exact, "members have slack"
    house.publish(large, "b", 600 * MIB)
    assert large.gate is house.broker.gates.vhosts["/"].gate
    house.take("a", count=20)
    assert house.depth("b") == 1
