"""Messages of a purge or deletion leave their queue at once, and are freed in slices."""

from __future__ import annotations

import pytest

from penstock.core.broker import Broker
from penstock.core.consume.unsettled import ACCEPTED_A_UNIT, BATCHES_AT_ONCE, BulkAcceptance
from penstock.core.gates.address_depth import AddressDepth, AddressShare
from penstock.core.message import Envelope
from penstock.core.queue.deferred_free import FREED_A_UNIT, RELEASED_A_UNIT, DeferredFree
from penstock.errors import PreconditionFailed
from penstock.flow.level import Level, Thresholds
from penstock.flow.work import AT_ONCE, SHARE, UNITS_A_TURN
from tests.support.broker_fixture import House
from tests.support.full_queue import CHARGE, MANY, FullQueue

pytestmark = pytest.mark.once


def leftovers(broker: Broker) -> int:
    """How many messages wait to be freed."""
    found = 0
    for chore in broker.turns.chores._waiting:
        if isinstance(chore, DeferredFree):
            found += sum(len(line) for line in chore.lines) + sum(len(heap) for heap in chore.heaps)
            found += sum(len(batch) for batch in chore.batches)
        elif isinstance(chore, BulkAcceptance):
            found += sum(len(messages) for _, messages in chore.accepted)
    return found


@pytest.mark.parametrize("how", ["purge", "delete"])
@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 3}], ids=["plain", "priorities"])
def test_purged_messages_are_gone_at_once_and_freed_in_slices(how: str, arguments: dict[str, object]) -> None:
    house = FullQueue(2 * UNITS_A_TURN * FREED_A_UNIT, **arguments)
    count = house.depth("q")
    gone = house.vhost.purge_queue if how == "purge" else house.vhost.delete_queue
    assert gone(house.q, house.broker.now) == count
    assert (house.q.messages, house.q.bytes, house.q.available()) == (0, 0, 0)
    left = leftovers(house.broker)
    assert left == count
    while house.broker.pending():
        house.broker.run(1000)
        assert left - leftovers(house.broker) <= UNITS_A_TURN * FREED_A_UNIT
        left = leftovers(house.broker)
    assert left == 0


@pytest.mark.parametrize("how", ["purge", "delete"])
def test_purged_messages_leave_the_address_a_slice_a_turn(how: str) -> None:
    house = FullQueue(0)
    depth = AddressDepth("a", Thresholds(Level(), Level(), Level()), house.broker.turns)
    left = 2 * UNITS_A_TURN * RELEASED_A_UNIT
    for _ in range(left):
        share = AddressShare(depth, CHARGE)
        share.enter(house.broker.now)
        house.q.enqueue(Envelope("a", "q"), b"x", CHARGE, house.broker.now, share)
    gone = house.vhost.purge_queue if how == "purge" else house.vhost.delete_queue
    assert gone(house.q, house.broker.now) == depth.messages == left
    assert house.q.messages == 0
    while house.broker.pending():
        house.broker.run(1000)
        assert left - depth.messages <= UNITS_A_TURN * RELEASED_A_UNIT
        left = int(depth.messages)
    assert (depth.messages, depth.bytes) == (0, 0)


def test_queue_accepts_publishes_by_the_same_route_while_a_purge_is_freed() -> None:
    house = FullQueue()
    writer = house.producer("p")
    routes = [house.vhost.route("", "q", False), house.vhost.route("", "q", False).persistent()]
    for route in routes:
        house.vhost.refresh_route(route)
        writer.publish(route, b"before", CHARGE)
    house.vhost.purge_queue(house.q, house.broker.now)
    for _ in range(2):
        for route in routes:
            house.vhost.refresh_route(route)
            writer.publish(route, b"after", CHARGE)
        house.turns()
    assert (house.depth("q"), house.q.available()) == (4, 4)
    assert {message.content for message in house.q.ready_queue.messages()} == {b"after"}
    house.q.purge(house.broker.now)
    for route in routes:
        writer.publish(route, b"again", CHARGE)
    assert (house.depth("q"), house.q.available()) == (2, 2)


def test_mortal_messages_that_were_purged_expire_no_more() -> None:
    house = House("q")
    queue = house.vhost.queues["q"]
    for _ in range(2 * AT_ONCE):
        queue.enqueue(Envelope("", "q", 0, 1.0), b"x", CHARGE, house.broker.now)
    house.broker.touch_queue(queue)
    queue.purge(house.broker.now)
    house.broker.begin(house.broker.now + 5)
    while house.broker.run(1000):
        pass
    assert (queue.counters.expired, queue.messages, queue.ready_queue.tombstones) == (0, 0, 0)


def test_acknowledged_messages_are_settled_at_once_and_freed_in_slices() -> None:
    house = FullQueue()
    house.deliver_all()
    house.session.unsettled.acknowledge(0, True, house.broker.now)
    assert (house.depth("q"), house.q.unacked_messages, not house.session.unsettled.is_empty()) == (0, 0, False)
    assert MANY - 2 * AT_ONCE <= leftovers(house.broker) <= MANY
    house.turns()
    assert leftovers(house.broker) == 0


def test_acknowledged_messages_leave_the_address_a_slice_a_turn() -> None:
    house = FullQueue(0)
    depth = AddressDepth("a", Thresholds(Level(), Level(), Level()), house.broker.turns)
    left = 2 * UNITS_A_TURN * RELEASED_A_UNIT
    for _ in range(left):
        share = AddressShare(depth, CHARGE)
        share.enter(house.broker.now)
        house.q.enqueue(Envelope("a", "q"), b"x", CHARGE, house.broker.now, share)
    house.deliver_all()
    house.session.unsettled.acknowledge(0, True, house.broker.now)
    assert (house.depth("q"), house.q.unacked_messages) == (0, 0)
    left = int(depth.messages)
    assert left >= 2 * UNITS_A_TURN * RELEASED_A_UNIT - 2 * AT_ONCE
    while house.broker.pending():
        house.broker.run(1000)
        assert left - depth.messages <= (UNITS_A_TURN + SHARE) * RELEASED_A_UNIT
        left = int(depth.messages)
    assert (depth.messages, depth.bytes) == (0, 0)


@pytest.mark.parametrize("rest", [0, 1, 3 * BATCHES_AT_ONCE], ids=["all", "all but one", "less than half"])
def test_acknowledgement_of_very_many_batches_is_done_in_slices(rest: int) -> None:
    count = 2 * BATCHES_AT_ONCE
    house = FullQueue(count + rest)
    unsettled = house.session.unsettled
    for _ in range(count + rest):
        house.session.get(house.q, False, house.broker.now)
    units = unsettled.acknowledge(count, True, house.broker.now)
    assert units == BATCHES_AT_ONCE // ACCEPTED_A_UNIT
    assert (unsettled.count(), unsettled.accepted()) == (rest, count), "settled for their consumer"
    with pytest.raises(PreconditionFailed, match="unknown delivery tag 1"):
        unsettled.acknowledge(1, False, house.broker.now)
    while house.broker.pending():
        before = int(house.broker.work.done)
        house.broker.run(1000)
        assert house.broker.work.done - before <= UNITS_A_TURN + SHARE
    assert (house.depth("q"), house.q.unacked_messages) == (rest, rest)
    unsettled.acknowledge(0, True, house.broker.now)
    house.turns()
    assert (house.depth("q"), house.q.unacked_messages, unsettled.is_empty()) == (0, 0, True)
