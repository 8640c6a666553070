"""Counters of a queue: its losses in all, and since the last report."""

from __future__ import annotations

from penstock.core.consume.consumer import Consumer
from penstock.core.queue.counters import NONE_RARE, QueueCounters, UnreportedLosses
from penstock.core.queue.queue import Queue
from tests.support.broker_fixture import House


def new_counters() -> tuple[Queue, QueueCounters]:
    house = House("q")
    return house.vhost.queues["q"], QueueCounters(UnreportedLosses())


def test_counters_have_losses_to_report_until_they_are_reported() -> None:
    queue, counters = new_counters()
    assert not counters.has_unreported()
    counters.count_drop(queue, 100)
    counters.count_refusal(queue)
    counters.count_lost_dead_letter(queue)
    assert counters.has_unreported()
    counters.clear_unreported()
    assert not counters.has_unreported()
    assert (counters.dropped, counters.refused, counters.rare.dead_letters_lost) == (1, 1, 1)


def test_counters_of_a_refusal_that_only_its_publisher_hears_of_have_nothing_to_report() -> None:
    _, counters = new_counters()
    counters.count_refusal()
    assert counters.refused == 1
    assert not counters.has_unreported()


def test_counters_list_their_queue_with_the_first_loss_to_report() -> None:
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


def test_queue_with_ordinary_traffic_shares_its_rare_counters() -> None:
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
