"""A `drop-head` queue makes room for a large message a slice a turn."""

from __future__ import annotations

import pytest

from penstock.core.publish.dead_letters import LOOSE_MAX
from penstock.core.queue.queue_room import DROPPED_A_UNIT
from penstock.flow.work import AT_ONCE, UNITS_A_TURN
from tests.support.broker_fixture import told
from tests.support.full_queue import CHARGE, MANY, FullQueue


def with_dead_letters(count: int, **arguments: object) -> FullQueue:
    house = FullQueue(count, dead_letter_exchange="", dead_letter_routing_key="d", **arguments)
    house.queue("d")
    return house


def test_who_displaces_messages_waits_while_too_many_of_them_are_not_seen_to() -> None:
    house = with_dead_letters(10, capacity_messages=10, overflow="drop-head")
    writer = house.producer("p")
    house.publish(writer, "q", CHARGE, count=LOOSE_MAX + 50)
    letters = house.q.dead_letters
    assert (letters.loose, len(writer.outbox)) == (LOOSE_MAX, 50)
    house.turns()
    assert (letters.loose, len(writer.outbox), house.q.counters.rare.dead_letters_lost) == (0, 0, 0)
    assert house.depth("d") == LOOSE_MAX + 50
    assert [outcome[2] for outcome in told(writer)] == [True]


def test_who_is_refused_into_the_dead_letters_waits_likewise() -> None:
    house = with_dead_letters(1, x_max_length=1, overflow="reject-publish-dlx")
    writer = house.producer("p")
    house.publish(writer, "q", CHARGE, count=LOOSE_MAX + 50)
    assert len(writer.outbox) == 50
    house.turns()
    assert (house.depth("d"), len(writer.outbox)) == (LOOSE_MAX + 50, 0)
    assert {outcome[2] for outcome in told(writer)} == {False}


def test_nobody_waits_for_dead_letters_of_a_queue_that_has_none_any_more() -> None:
    house = with_dead_letters(10, capacity_messages=10, overflow="drop-head")
    writer = house.producer("p")
    house.publish(writer, "q", CHARGE, count=LOOSE_MAX + 5)
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


def test_who_gives_up_waiting_for_room_leaves_the_others_free() -> None:
    house = FullQueue(MANY, capacity_bytes=MANY * CHARGE, overflow="drop-head")
    writer, small = house.producer("p"), house.producer("s")
    house.publish(writer, "q", MANY * CHARGE)
    house.publish(small, "q", CHARGE)
    writer.abort()
    house.turns()
    assert small.outbox == type(small.outbox)()
    assert not house.q.gate.waiters
