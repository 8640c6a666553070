"""Work on dead letters: published a slice a turn, and each search for a ring costs its steps."""

from __future__ import annotations

from penstock.core.consume.outcome import Outcome
from penstock.core.publish.dead_letters import LETTER_UNITS, TARGET_UNITS
from tests.support.dead_letters import Morgue


def test_deaths_are_published_a_slice_a_turn_in_order() -> None:
    house = Morgue()
    house.queue("dead")
    house.put(*[b"%d" % number for number in range(10)])
    house.deliver(10)
    house.reject(1)
    pending = house.broker.dead_letters
    house.session.unsettled.settle_tag(10, True, Outcome.REJECTED, house.broker.now)
    spent = int(pending.work(1, house.broker.now))
    assert (spent, house.depth("dead")) == (LETTER_UNITS + TARGET_UNITS, 2)
    assert pending.has_more()
    house.run()
    assert house.ready("dead") == [b"%d|work:rejected" % number for number in range(10)]
    assert not pending.has_more()


def test_search_for_a_ring_is_made_once_for_letters_that_begin_to_wait_together() -> None:
    house = Morgue()
    house.queue("dead", capacity_messages=1)
    house.put(b"old", queue="dead")
    house.put(b"1", b"2", b"3")
    house.deliver(3)
    house.session.unsettled.settle_tag(3, True, Outcome.REJECTED, house.broker.now)
    pending = house.broker.dead_letters
    spent = int(pending.work(1000, house.broker.now))
    assert spent == 3 * (LETTER_UNITS + TARGET_UNITS) + 2, "one search, of one letter"
    assert not pending.has_more()
