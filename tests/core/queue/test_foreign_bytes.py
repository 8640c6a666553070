"""Limits in bytes by names of other brokers: they count properties and bodies, and hold exactly."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.flow.level import OVERHEAD
from tests.profiles import examples
from tests.support.broker_fixture import House

CAPACITY, STOP, RESUME = 1_000, 800, 700


def publish(house: House, producer: str, sizes: list[int]) -> None:
    for size in sizes:
        house.publish(house.producer(producer), "a", OVERHEAD + size)
    house.broker.run(1000)


def test_thousand_messages_of_100_bytes_fit_into_204800_bytes_of_qpid_cpp() -> None:
    house = House("a", **{"qpid.max_size": 204_800})
    publish(house, "p", [102] * 1_604)
    queue = house.vhost.queues["a"]
    assert (house.depth("a"), queue.gate.open, int(queue.measure().bytes)) == (1_604, True, 163_608)
    publish(house, "p", [300])
    assert not queue.gate.open
    assert int(queue.bytes) == 163_908 + 1_605 * OVERHEAD


def test_message_above_the_capacity_of_the_java_broker_enters_an_empty_queue() -> None:
    house = House("a", capacity=1000)
    publish(house, "p", [1_202])
    queue = house.vhost.queues["a"]
    assert (house.depth("a"), queue.gate.open) == (1, False)
    assert house.take("a")
    assert queue.gate.open


def test_queue_that_becomes_a_ring_opens_the_gate_and_confirms_withheld_publishes() -> None:
    house = House("a", capacity_messages=10, stop_messages=1)
    producer = house.published("p", "a", OVERHEAD + 1, count=4)
    queue = house.vhost.queues["a"]
    assert not queue.gate.open
    assert [int(outcome.last) for outcome in producer.confirms.take()] == [1]
    house.set("queue", "a", overflow="ring")
    house.broker.run(1000)
    assert queue.gate.open
    assert [(int(outcome.first), int(outcome.last), outcome.confirmed) for outcome in producer.confirms.take()] == [
        (2, 4, True)
    ]
    house.set("queue", "#", stop_percent=10)
    assert queue.gate.open
    assert queue.thresholds.stop.unlimited()


@settings(max_examples=examples(300), derandomize=True, database=None, deadline=None)
@given(
    st.lists(
        st.one_of(st.lists(st.integers(0, 400), min_size=1, max_size=12), st.integers(1, 9), st.just("purge")),
        max_size=14,
    )
)
def test_depth_is_never_above_the_capacity_and_the_gate_is_exact(steps: list[list[int] | int | str]) -> None:
    house = House("a", **{"qpid.max_size": CAPACITY}, stop_bytes=STOP, resume_bytes=RESUME, hold_deadline=0)
    queue = house.vhost.queues["a"]
    for number, step in enumerate(steps):
        if isinstance(step, list):
            publish(house, f"p{number}", step)
        elif isinstance(step, int):
            house.take("a", count=step)
        else:
            house.vhost.purge_queue(queue, house.broker.now)
            house.broker.run(1000)
        size = int(queue.bytes) - int(queue.messages) * OVERHEAD
        assert size == int(queue.measure().bytes) <= CAPACITY
        assert queue.highest()[1] <= CAPACITY
        if size > STOP:
            assert not queue.gate.open
        elif size <= RESUME:
            assert queue.gate.open
    while queue.messages:
        house.take("a")
    assert int(queue.bytes) == 0
