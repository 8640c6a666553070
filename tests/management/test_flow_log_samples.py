"""Samples of the flow log: messages in and out by queue and second, and the busiest producers and consumers."""

from __future__ import annotations

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.queue.queue_settings import ConsumerSettings
from penstock.management.flow_log_records import Recorder
from penstock.management.flow_log_samples import BUSIEST, ROUND_S, Record, Sampler
from penstock.settings.read import read_consume_arguments
from tests.support.broker_fixture import House
from tests.support.limited_consumers import deliver


def later(house: House, sampler: Sampler, seconds: float = 1.0) -> list[Record]:
    """Let time pass; return the samples that are due then."""
    house.broker.begin(house.broker.now + seconds)
    house.broker.run(1000)
    return sampler.tick(1000.0)


def of(records: list[Record], event: str, **wanted: object) -> list[Record]:
    return [each for each in records if each["event"] == event and wanted.items() <= each.items()]


def test_samples_of_a_queue_have_messages_in_and_out() -> None:
    house = House()
    house.queue("a")
    sampler = Sampler(house.broker)
    producer, queue = house.producer("p"), house.vhost.queues["a"]
    for charge in (100, 200, 3000):
        house.publish(producer, "a", charge)
    house.take("a")
    house.session.get(queue, False, house.broker.now)
    (depth,) = of(later(house, sampler), "depth")
    wanted = {
        "messages": 2, "bytes": 3200, "unacknowledged": 1, "seconds": 1.0, "in_messages": 3, "in_bytes": 3300,
        "out_messages": 2, "out_bytes": 300, "settled_messages": 1, "settled_bytes": 100,
        "sizes": [0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1], "wall": 1101.0, "mono": 101.0,
    }  # fmt: skip
    assert {name: depth[name] for name in wanted} == wanted
    assert later(house, sampler) == []
    house.session.unsettled.settle(1, house.session.unsettled.next_number - 1, Outcome.ACCEPTED, house.broker.now)
    (depth,) = of(later(house, sampler), "depth")
    assert (depth["in_messages"], depth["out_messages"], depth["settled_messages"], depth["seconds"]) == (0, 0, 1, 1.0)
    assert "sizes" not in depth


def test_samples_are_written_for_traffic_at_constant_depth() -> None:
    house = House()
    house.queue("a")
    sampler = Sampler(house.broker)
    house.publish(house.producer("p"), "a", 100)
    house.take("a")
    (depth,) = of(later(house, sampler), "depth")
    assert (depth["messages"], depth["in_messages"], depth["settled_messages"]) == (0, 1, 1)


def test_samples_are_written_each_second_while_a_gate_blocks_producers() -> None:
    house = House()
    house.queue("a", capacity_messages=1)
    sampler = Sampler(house.broker)
    producer = house.producer("p")
    house.publish(producer, "a", 100)
    house.publish(producer, "a", 100)
    for _ in range(3):
        (depth,) = of(later(house, sampler), "depth")
        assert (depth["messages"], depth["blocked"], depth["seconds"]) == (1, 1, 1.0)
        assert depth["held_messages"] == 1
    house.publish(producer, "a", 100)
    house.publish(house.producer("q"), "a", 100)
    (depth,) = of(later(house, sampler), "depth")
    assert (depth["blocked"], depth["held_messages"]) == (2, 3)
    house.take("a")
    (depth,) = of(later(house, sampler), "depth")
    assert (depth["in_messages"], depth["held_messages"]) == (1, 2), "what it took is held no more"


def test_samples_exclude_earlier_messages() -> None:
    house = House()
    house.queue("a")
    house.publish(house.producer("p"), "a", 100)
    sampler = Sampler(house.broker)
    assert later(house, sampler) == []
    house.publish(house.producer("p"), "a", 100)
    (depth,) = of(later(house, sampler), "depth")
    assert (depth["messages"], depth["in_messages"], depth["in_bytes"]) == (2, 1, 100)


def test_time_before_the_begin_counts_for_no_queue() -> None:
    """A broker makes its sampler before it has a clock: the first sample speaks of the time since `begin`."""
    house = House()
    house.broker.begin(0.0)
    sampler = Sampler(house.broker)
    house.broker.begin(5000.0)
    sampler.begin()
    house.queue("a")
    house.publish(house.producer("p"), "a", 100)
    (depth,) = of(later(house, sampler), "depth")
    assert depth["seconds"] == 1.0


def test_samples_of_a_queue_begin_with_thresholds_and_report_changes() -> None:
    house = House()
    house.queue("a", capacity_messages=10, stop_messages=8, resume_messages=4, hold_deadline=5)
    sampler = Sampler(house.broker)
    producer, queue = house.producer("p"), house.vhost.queues["a"]
    house.publish(producer, "a", 100)
    (told,) = of(later(house, sampler), "queue")
    assert [told[f"{name}_messages"] for name in ("capacity", "stop", "resume")] == [10, 8, 4]
    assert (told["hold_deadline"], told["overflow"], told["queue"]) == (5.0, "block", "a")
    house.publish(producer, "a", 100)
    assert of(later(house, sampler), "queue") == []
    house.vhost.declare_queue("wide", {"capacity-messages": 20}, False, False, None, None)
    queue.apply_settings(house.vhost.queues["wide"].settings, house.broker.now)
    house.publish(producer, "a", 100)
    (told,) = of(later(house, sampler), "queue")
    assert told["capacity_messages"] == 20


def test_samples_of_producers_are_exact_and_split_by_queue() -> None:
    house = House()
    house.queue("a")
    house.queue("b")
    sampler = Sampler(house.broker)
    one, two = house.producer("one"), house.producer("two")
    for _ in range(30):
        house.publish(one, "a", 100)
    for _ in range(10):
        house.publish(two, "a", 100)
        house.publish(two, "b", 100)
    later(house, sampler)
    found = of(later(house, sampler, ROUND_S), "producer")
    parts = {(each["producer"], each["queue"]): (each["in_messages"], each["in_bytes"]) for each in found}
    assert parts == {("one", "a"): (30, 3000), ("two", "a"): (10, 1000), ("two", "b"): (10, 1000)}
    assert of(later(house, sampler, ROUND_S), "producer") == []


def test_samples_name_the_busiest_producers_and_sum_the_rest() -> None:
    house = House()
    house.queue("a")
    sampler = Sampler(house.broker)
    for number in range(BUSIEST + 7):
        producer = house.producer(f"p{number}")
        for _ in range(1 if number < 7 else 3):
            house.publish(producer, "a", 100)
    found = of(later(house, sampler, ROUND_S), "producer")
    assert len(found) == BUSIEST + 1
    (others,) = (each for each in found if "producer" not in each)
    assert (others["count"], others["in_messages"], others["in_bytes"]) == (7, 7, 700)


def test_samples_name_the_queue_whose_dead_letters_come() -> None:
    house = House()
    house.queue("a", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    house.queue("dead")
    sampler = Sampler(house.broker)
    house.publish(house.producer("p"), "a", 100)
    house.session.get(house.vhost.queues["a"], False, house.broker.now)
    house.session.unsettled.settle(1, house.session.unsettled.next_number - 1, Outcome.REJECTED, house.broker.now)
    found = of(later(house, sampler, ROUND_S), "producer", source="a")
    assert [(each["queue"], each["in_messages"]) for each in found] == [("dead", 1)]


def test_samples_of_consumers_have_deliveries_and_prefetch() -> None:
    house = House()
    house.queue("a")
    sampler = Sampler(house.broker)
    producer = house.producer("p")
    session = Session(name="con:1(alice)/ch:2")
    consumer = Consumer("c", session, house.vhost.queues["a"], False, False, 5)
    house.broker.consume(session, consumer, ConsumerSettings(consumer.queue.settings, read_consume_arguments("c", {})))
    for _ in range(3):
        house.publish(producer, "a", 100)
    deliver(house)
    (told,) = of(later(house, sampler, ROUND_S), "consumer")
    wanted = {"consumer": "con:1(alice)/ch:2", "queue": "a", "out_messages": 3, "prefetch": 5}
    assert {name: told[name] for name in wanted} == wanted


def test_samples_of_refused_publishes_are_counted_by_queue() -> None:
    house = House()
    house.queue("a", capacity_messages=1, overflow="reject-publish")
    recorder = Recorder(house.broker)
    producer = house.producer("p")
    for _ in range(3):
        house.publish(producer, "a", 100)
    for effect in house.broker.effects():
        recorder.record(effect)
    recorder.tick()
    (depth,) = of(recorder.take(), "depth")
    assert (depth["in_messages"], depth["refused_messages"], depth["refused_bytes"]) == (1, 2, 200)
