"""Deliveries requeued or rejected in bulk: settled at once for their consumer, and worked off in slices."""

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import settle_in_slices
from penstock.core.publish.dead_letters import LETTER_UNITS, TARGET_UNITS
from penstock.errors import PreconditionFailed
from penstock.flow.work import AT_ONCE, UNITS_A_TURN
from tests.support.broker_fixture import House
from tests.support.full_queue import MANY, FullQueue


def settle_upto(house: House, tag: int, outcome: Outcome) -> None:
    """Settle all deliveries up to and including a tag, as basic.nack with `multiple`."""
    settle_in_slices(house.broker, house.session, 1, house.session.unsettled.upto(tag), outcome)


@pytest.fixture
def house() -> FullQueue:
    return FullQueue()


def test_returned_deliveries_come_back_a_slice_a_turn_in_order(house: FullQueue) -> None:
    house.deliver_all()
    house.fill(5)
    settle_upto(house, 0, Outcome.FAILED)
    assert house.session.unsettled.is_empty()
    back = [house.q.available()]
    while house.broker.pending():
        assert house.consumed() == [], "what is younger would overtake what is on its way"
        assert house.q.waiting() == MANY + 5
        house.broker.run(1000)
        back.append(house.q.available())
    assert max(after - before for before, after in pairwise(back)) <= UNITS_A_TURN + 256
    assert house.consumed() == [*range(MANY), *range(5)]
    assert (house.depth("q"), house.q.unacked_messages, house.q.coming_back) == (0, 0, 0)


def test_waiting_consumer_gets_returned_messages_when_all_are_back(house: FullQueue) -> None:
    house.deliver_all()
    house.broker.consume(house.session, Consumer("next", house.session, house.q, True, False, 0))
    settle_upto(house, 0, Outcome.FAILED)
    assert house.broker.next_batch() is None
    house.turns()
    batch = house.broker.next_batch()
    assert [message.content for message in batch.messages if message is not None][:2] == [b"0", b"1"]


def test_returning_deliveries_are_settled_for_the_consumer(house: FullQueue) -> None:
    house.deliver_all()
    settle_upto(house, MANY - 10, Outcome.FAILED)
    with pytest.raises(PreconditionFailed):
        house.session.unsettled.acknowledge(MANY - 10, False, house.broker.now)
    assert house.session.unsettled.count() == 10
    house.session.unsettled.acknowledge(0, True, house.broker.now)
    house.turns()
    assert (house.depth("q"), house.q.available()) == (MANY - 10, MANY - 10)


def test_unknown_tag_returns_no_delivery(house: FullQueue) -> None:
    house.deliver_all()
    with pytest.raises(PreconditionFailed):
        settle_upto(house, MANY + 1, Outcome.FAILED)
    assert house.session.unsettled.count() == MANY


def test_get_returns_the_oldest_of_the_returning_messages(house: FullQueue) -> None:
    house.deliver_all()
    house.fill(1)
    settle_upto(house, 0, Outcome.FAILED)
    got = []
    for _ in range(3 * AT_ONCE):
        batch = house.session.get(house.q, True, house.broker.now)
        assert batch.messages[0] is not None
        got.append(int(batch.messages[0].content))
    assert got == list(range(3 * AT_ONCE))


def test_deliveries_of_two_queues_return_each_to_the_right_queue(house: FullQueue) -> None:
    house.queue("other")
    other = house.vhost.queues["other"]
    house.fill(MANY, "other")
    for queue in (house.q, other):
        house.broker.consume(house.session, Consumer(queue.name, house.session, queue, False, False, 0))
    while house.broker.next_batch() is not None:
        pass
    for queue in (house.q, other):
        house.broker.cancel(house.session, queue.name)
    settle_upto(house, 0, Outcome.FAILED)
    batch = house.session.get(other, True, house.broker.now)
    assert batch.messages[0] is not None
    assert batch.messages[0].content == b"0"
    house.turns()
    assert (house.q.available(), other.available()) == (MANY, MANY - 1)
    assert (house.q.returning, other.returning) == (None, None)


@pytest.mark.parametrize("how", ["purge", "delete"])
def test_returning_messages_go_with_a_purge_or_deletion(how: str, house: FullQueue) -> None:
    house.deliver_all()
    settle_upto(house, 0, Outcome.FAILED)
    told = house.q.purge(house.broker.now) if how == "purge" else house.broker.delete_queue(house.q)
    assert told == MANY
    house.turns()
    assert (house.q.messages, house.q.bytes, house.q.unacked_messages, house.q.available()) == (0, 0, 0, 0)


def test_rejected_deliveries_are_dead_lettered_a_slice_a_turn() -> None:
    house = FullQueue(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    house.queue("dead")
    house.deliver_all()
    settle_upto(house, 0, Outcome.REJECTED)
    assert house.session.unsettled.is_empty()
    dead = [0]
    while house.broker.pending():
        house.broker.run(1000)
        dead.append(house.depth("dead"))
        assert house.depth("q") + house.depth("dead") == MANY
    most = UNITS_A_TURN // (LETTER_UNITS + TARGET_UNITS) + 1
    assert max(after - before for before, after in pairwise(dead)) <= most
    assert (dead[-1], house.depth("q")) == (MANY, 0)
