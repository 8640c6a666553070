"""Queues with losses to report: each once until its report, and so many at once."""

from __future__ import annotations

from tests.support.broker_fixture import House


def test_queue_with_losses_is_listed_once_until_its_report() -> None:
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
