"""Arrival of a batch in a queue: its room is reserved, and no client sees a part of the batch.

A `drop-head` queue makes room for a large message a slice a turn.
"""

from __future__ import annotations

import pytest

from penstock.core.publish.dead_letters import LOOSE_MAX
from penstock.core.queue.queue_room import DROPPED_A_UNIT, Arrival, hides_next, visible_tail
from penstock.flow.work import AT_ONCE, UNITS_A_TURN
from tests.support.broker_fixture import told
from tests.support.full_queue import CHARGE, MANY, FullQueue
from tests.support.restored_broker import journaled, queue_of
from tests.support.settings_bench import Bench


def test_promised_room_is_reserved_and_released_message_by_message() -> None:
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


def test_promised_room_of_a_paging_queue_is_within_the_page_limit() -> None:
    vhost = journaled().broker.vhosts["/"]
    queue = queue_of(vhost, "a", overflow="page", capacity_messages=10, page_limit_messages=20)
    arrival = Arrival(queue, 15, 1500)
    arrival.promise(0.0)
    assert queue.pager.within_limit(5, 500)
    assert not queue.pager.within_limit(6, 600)
    assert queue.reserved.messages == 0
    arrival.end(0.0)
    assert queue.pager.within_limit(20, 2000)


def test_queue_that_drops_the_oldest_messages_promises_no_room() -> None:
    bench = Bench()
    queue = bench.queue("a", overflow="drop-head", capacity_messages=10)
    arrival = Arrival(queue, 6, 600)
    arrival.promise(0.0)
    assert queue.covers(10, 1000)
    arrival.pass_one(100)
    arrival.end(0.0)
    assert queue.reserved.messages == 0


def test_messages_before_an_arrival_may_be_taken_unlike_later_messages() -> None:
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


def with_dead_letters(count: int, **arguments: object) -> FullQueue:
    house = FullQueue(count, dead_letter_exchange="", dead_letter_routing_key="d", **arguments)
    house.queue("d")
    return house


def test_publish_that_displaces_messages_waits_while_too_many_dead_letters_do() -> None:
    house = with_dead_letters(10, capacity_messages=10, overflow="drop-head")
    writer = house.published("p", "q", CHARGE, count=LOOSE_MAX + 50)
    letters = house.q.dead_letters
    assert (letters.loose, len(writer.outbox)) == (LOOSE_MAX, 50)
    house.turns()
    assert (letters.loose, len(writer.outbox), house.q.counters.rare.dead_letters_lost) == (0, 0, 0)
    assert house.depth("d") == LOOSE_MAX + 50
    assert [outcome[2] for outcome in told(writer)] == [True]


def test_publish_refused_into_the_dead_letters_waits_likewise() -> None:
    house = with_dead_letters(1, x_max_length=1, overflow="reject-publish-dlx")
    writer = house.published("p", "q", CHARGE, count=LOOSE_MAX + 50)
    assert len(writer.outbox) == 50
    house.turns()
    assert (house.depth("d"), len(writer.outbox)) == (LOOSE_MAX + 50, 0)
    assert {outcome[2] for outcome in told(writer)} == {False}


def test_publish_that_waits_for_dead_letters_is_released_with_the_deleted_queue() -> None:
    house = with_dead_letters(10, capacity_messages=10, overflow="drop-head")
    writer = house.published("p", "q", CHARGE, count=LOOSE_MAX + 5)
    house.broker.delete_queue(house.q)
    house.turns()
    assert writer.outbox == type(writer.outbox)()
    assert house.depth("d") == LOOSE_MAX


@pytest.mark.once
def test_large_message_displaces_many_a_slice_a_turn() -> None:
    count = 3 * UNITS_A_TURN * DROPPED_A_UNIT
    house = FullQueue(count, capacity_bytes=count * CHARGE, overflow="drop-head")
    writer, small = house.producer("p"), house.producer("s")
    house.publish(writer, "q", count * CHARGE - CHARGE)
    house.publish(small, "q", CHARGE)
    assert (len(writer.outbox), len(small.outbox), house.depth("q")) == (1, 1, count)
    left = count
    while house.broker.pending():
        house.broker.run(1000)
        assert left - house.depth("q") <= UNITS_A_TURN * DROPPED_A_UNIT + AT_ONCE
        left = house.depth("q")
    assert (house.depth("q"), house.q.bytes, house.q.counters.dropped) == (2, count * CHARGE, count)
    assert [told(each)[0][2] for each in (writer, small)] == [True, True]


def test_producer_that_stops_waiting_for_room_frees_the_other_producers() -> None:
    house = FullQueue(MANY, capacity_bytes=MANY * CHARGE, overflow="drop-head")
    writer, small = house.producer("p"), house.producer("s")
    house.publish(writer, "q", MANY * CHARGE)
    house.publish(small, "q", CHARGE)
    writer.abort()
    house.turns()
    assert small.outbox == type(small.outbox)()
    assert not house.q.gate.waiters
