"""Counters of a queue: losses in total and since the last report, and samples for the flow log."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.queue.counters import (
    GAP_MOST,
    NONE_RARE,
    SAMPLES_A_GAP,
    SENDERS_MOST,
    SIZES,
    ArrivalSamples,
    QueueCounters,
    UnreportedLosses,
)
from penstock.core.queue.queue import Queue
from tests.profiles import examples
from tests.support.broker_fixture import House


def new_counters() -> tuple[Queue, QueueCounters]:
    house = House("q")
    return house.vhost.queues["q"], QueueCounters(UnreportedLosses())


def test_counters_have_losses_to_report_until_the_report() -> None:
    queue, counters = new_counters()
    assert not counters.has_unreported()
    counters.count_drop(queue, 100)
    counters.count_refusal(queue)
    counters.count_lost_dead_letter(queue)
    assert counters.has_unreported()
    counters.clear_unreported()
    assert not counters.has_unreported()
    assert (counters.dropped, counters.refused, counters.rare.dead_letters_lost) == (1, 1, 1)


def test_refusal_without_a_log_line_leaves_no_report() -> None:
    _, counters = new_counters()
    counters.count_refusal()
    assert counters.refused == 1
    assert not counters.has_unreported()


def test_counters_list_the_queue_with_the_first_loss_to_report() -> None:
    queue, counters = new_counters()
    counters.count_refusal()
    assert counters.losses.take(9) == []
    counters.count_drop(queue, 100)
    counters.count_lost_dead_letter(queue)
    assert counters.losses.take(9) == [queue]


def test_counters_of_expired_and_dead_lettered_messages_are_no_losses() -> None:
    _, counters = new_counters()
    counters.count_expiry()
    counters.count_dead_letter()
    assert (counters.expired, counters.rare.dead_lettered) == (1, 1)
    assert not counters.has_unreported()


def test_queue_with_ordinary_traffic_shares_the_rare_counters() -> None:
    house = House("q")
    house.publish_now("q", 100)
    queue = house.vhost.queues["q"]
    house.session.take_batch(Consumer("c", house.session, queue, False, False, 0), 1, 100.0)
    house.session.unsettled.acknowledge(1, False, 100.0)
    assert queue.counters.rare is NONE_RARE
    queue.counters.own().gets_empty += 1
    assert (int(queue.counters.gets_empty), int(NONE_RARE.gets_empty)) == (1, 0)


def test_messages_of_before_a_restart_do_not_count_as_published() -> None:
    house = House("q")
    queue = house.vhost.queues["q"]
    queue.raise_tail(100)
    assert (int(queue.counters.published(queue)), queue.counters.has_counted(queue)) == (0, False)
    house.publish_now("q", 100)
    assert (int(queue.counters.published(queue)), queue.counters.has_counted(queue)) == (1, True)


def test_queue_with_losses_is_listed_once_until_the_report() -> None:
    house = House("q")
    queue = house.vhost.queues["q"]
    for _ in range(3):
        queue.count_refusal()
    queue.counters.count_lost_dead_letter(queue)
    assert house.broker.losses.take(10) == [queue]
    assert house.broker.losses.take(10) == []
    queue.counters.clear_unreported()
    queue.count_refusal()
    assert house.broker.losses.take(10) == [queue]


def test_queues_with_losses_are_taken_a_number_at_a_time() -> None:
    house = House()
    for name in "abc":
        house.queue(name)
    queues = list(house.vhost.queues.values())
    for queue in queues:
        queue.count_refusal()
    assert house.broker.losses.take(2) == [queues[2], queues[1]]
    assert house.broker.losses.take(2) == [queues[0]]


CHARGE = 100
OPERATIONS = ("publish", "publish", "publish", "get", "take", "accept", "requeue", "reject", "purge", "expire")
LETTERS = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "b"}
SHAPES = ({}, {"overflow": "drop-head"}, {"x_message_ttl": 5000}, LETTERS)


@settings(max_examples=examples(200))
@given(shape=st.sampled_from(SHAPES), operations=st.lists(st.sampled_from(OPERATIONS), max_size=40))
def test_counters_of_a_queue_balance_the_depth_after_any_operations(shape: dict, operations: list[str]) -> None:
    house = House("a", capacity_messages=6, hold_deadline=5, **shape)
    house.queue("b")
    producer, queue = house.producer("p"), house.vhost.queues["a"]
    delivered = 0
    for operation in operations:
        now = house.broker.now
        if operation == "publish":
            house.publish(producer, "a", CHARGE)
        elif operation == "get":
            delivered += house.take("a")
        elif operation == "take":
            delivered += house.session.get(queue, False, now) is not None
        elif operation == "purge":
            queue.purge(now)
        elif operation == "expire":
            house.broker.begin(now + 6.0)
        else:
            outcome = {"accept": Outcome.ACCEPTED, "requeue": Outcome.FAILED, "reject": Outcome.REJECTED}[operation]
            tags = house.session.unsettled.next_number
            house.session.unsettled.settle(1, tags - 1, outcome, now)
        house.broker.run(1000)
        assert queue.depth_bytes() + queue.counters.removed_bytes == queue.tail * CHARGE
        assert (queue.counters.delivered, queue.counters.delivered_bytes) == (delivered, delivered * CHARGE)
    assert producer.accepted_messages * CHARGE == producer.accepted_bytes
    assert producer.accepted_messages >= queue.tail


def test_samples_stay_few_and_represent_all_messages() -> None:
    samples = ArrivalSamples()
    taken, due, light = 0, 1, 0
    for sequence in range(1, 400_001):
        # Two senders alternate in a pattern that a fixed step would be in time with.
        sender, charge = ("even", 200) if sequence % 2 == 0 else ("odd", 3000)
        light += charge == 200
        if sequence >= due:
            taken += 1
            due = sequence + samples.add(sender, "events", charge)
    assert taken <= SAMPLES_A_GAP * 16
    sizes = samples.take_sizes()
    assert len(sizes) == 13  # 3000 is below 2**12.
    assert abs(sum(sizes) - 400_000) < 400_000 * 0.3
    assert abs(sizes[8] / sum(sizes) - 0.5) < 0.2
    assert set(samples.take_senders()) == {("even", "events"), ("odd", "events")}
    assert (samples.take_sizes(), samples.take_senders()) == ([], {})


FAST = ("fast", "")


def test_samples_of_a_slow_queue_are_all_messages() -> None:
    samples = ArrivalSamples()
    for _ in range(SAMPLES_A_GAP * 100):
        samples.add(*FAST, 1)
    samples.fit(20)
    assert [samples.add("slow", "", 100) for _ in range(20)] == [1] * 20
    samples.fit(1 << 50)
    assert 0 < samples.add(*FAST, 1) <= 2 * GAP_MOST


def test_samples_remember_a_bounded_number_of_publishers_and_sizes() -> None:
    samples = ArrivalSamples()
    for number in range(SENDERS_MOST * 2):
        samples.add(f"p{number // 2}", f"e{number % 2}", 1 << 50)
    assert len(samples.take_senders()) == SENDERS_MOST
    assert len(samples.take_sizes()) == SIZES
