"""Arrival of a batch in a queue: its room is kept, and nobody sees a part of it."""

from __future__ import annotations

from penstock.core.queue.queue_room import Arrival, hides_next, visible_tail
from tests.support.restored_broker import journaled, queue_of
from tests.support.settings_bench import Bench


def test_promised_room_is_nobody_elses_and_is_given_up_message_by_message() -> None:
    bench = Bench()
    queue = bench.queue("a", capacity_messages=10)
    arrival = Arrival(queue, 6, 600)
    arrival.promise(0.0)
    assert queue.fits(100)
    assert not queue.covers(5, 500)
    arrival.pass_one(100)
    assert queue.covers(5, 500)
    arrival.end(0.0)
    assert queue.covers(10, 1000)
    assert (queue.reserved.messages, queue.reserved.bytes, queue.reserved.promised_messages()) == (0, 0, 0)


def test_promised_room_of_a_paging_queue_is_within_its_page_limit() -> None:
    vhost = journaled().broker.vhosts["/"]
    queue = queue_of(vhost, "a", overflow="page", capacity_messages=10, page_limit_messages=20)
    arrival = Arrival(queue, 15, 1500)
    arrival.promise(0.0)
    assert queue.pager.within_limit(5, 500)
    assert not queue.pager.within_limit(6, 600)
    assert queue.reserved.messages == 0
    arrival.end(0.0)
    assert queue.pager.within_limit(20, 2000)


def test_queue_that_drops_its_oldest_messages_promises_nothing() -> None:
    bench = Bench()
    queue = bench.queue("a", overflow="drop-head", capacity_messages=10)
    arrival = Arrival(queue, 6, 600)
    arrival.promise(0.0)
    assert queue.covers(10, 1000)
    arrival.pass_one(100)
    arrival.end(0.0)
    assert queue.reserved.messages == 0


def test_what_was_there_before_may_be_taken_and_nothing_after_the_horizon() -> None:
    bench = Bench()
    queue = bench.queue("a")
    bench.publish(bench.producer(), "a", 100, 100)
    assert visible_tail(queue) == 2
    arrival = Arrival(queue, 1, 100)
    arrival.promise(0.0)
    arrival.begin()
    bench.publish(bench.producer(), "a", 100)
    assert (int(queue.tail), visible_tail(queue)) == (3, 2)
    for _ in range(2):
        assert bench.session.get(queue, True, 0.0)
    assert hides_next(queue)
    assert bench.session.get(queue, True, 0.0) is None
    arrival.end(0.0)
    assert bench.session.get(queue, True, 0.0)
