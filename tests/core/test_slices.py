"""What is too much for one turn is done in slices of counted work, and nothing of it is seen half done."""

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.core.broker import Broker
from penstock.core.consume.bulk_requeue import refuse_all, requeue_all
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.cursor import SETTLED_A_UNIT, Cursor
from penstock.core.gates.address_depth import AddressDepth, AddressShare
from penstock.core.message import Envelope
from penstock.core.publish.dead_letters import LETTER_UNITS, LOOSE_MAX, TARGET_UNITS
from penstock.core.queue.deferred_free import FREED_A_UNIT, RELEASED_A_UNIT, DeferredFree
from penstock.core.queue.expiry import EXPIRED_A_TURN
from penstock.core.queue.queue import Queue
from penstock.core.queue.room_making import DROPPED_A_UNIT
from penstock.errors import NotFound, PreconditionFailed
from penstock.flow.chores import UNITS_A_TURN
from penstock.flow.level import Level, Thresholds
from penstock.flow.work import AT_ONCE
from tests.support.broker_fixture import House, told

MANY = 20_000
CHARGE = 300


class Full(House):
    """A house whose queue `q` has many messages, numbered from 0."""

    def __init__(self, count: int = MANY, **arguments: object) -> None:
        super().__init__()
        self.queue("q", **arguments)
        self.q: Queue = self.vhost.queues["q"]
        self.fill(count)

    def fill(self, count: int, queue: str = "q") -> None:
        for number in range(count):
            self.vhost.queues[queue].enqueue(Envelope("", queue), b"%d" % number, CHARGE, self.broker.now)

    def deliver_all(self) -> None:
        """Let one consumer have everything, and be cancelled."""
        self.broker.consume(self.session, Consumer("c", self.session, self.q, False, False, 0))
        while self.broker.next_batch() is not None:
            pass
        self.broker.cancel(self.session, "c")

    def turns(self) -> int:
        """Give turns until nothing is pending; returns how many."""
        count = 0
        while self.broker.pending():
            self.broker.run(1000)
            count += 1
        return count

    def consumed(self) -> list[int]:
        """What a new consumer gets in the next turn."""
        tag = f"c{self.session.next_tag}"
        self.broker.consume(self.session, Consumer(tag, self.session, self.q, True, False, 0))
        got: list[int] = []
        while (batch := self.broker.next_batch()) is not None:
            got += [int(message.content) for message in batch.messages if message is not None]
        self.broker.cancel(self.session, tag)
        return got


def leftovers(broker: Broker) -> int:
    """How many messages wait to be freed."""
    found = 0
    for chore in broker.turns.chores._waiting:
        if isinstance(chore, DeferredFree):
            found += sum(len(line) for line in chore.lines) + sum(len(heap) for heap in chore.heaps)
            found += sum(len(batch) for batch in chore.batches)
    return found


# What has left


@pytest.mark.parametrize("how", ["purge", "delete"])
@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 3}], ids=["plain", "priorities"])
def test_what_a_purge_drops_is_gone_at_once_and_freed_in_slices(how: str, arguments: dict[str, object]) -> None:
    house = Full(2 * UNITS_A_TURN * FREED_A_UNIT, **arguments)
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
def test_what_a_purge_drops_leaves_its_address_a_slice_a_turn(how: str) -> None:
    house = Full(0)
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


def test_a_queue_takes_messages_by_the_same_route_while_what_was_purged_is_freed() -> None:
    house = Full()
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
    house = House()
    house.queue("q")
    queue = house.vhost.queues["q"]
    for _ in range(2 * AT_ONCE):
        queue.enqueue(Envelope("", "q", 0, 1.0), b"x", CHARGE, house.broker.now)
    house.broker.touch_queue(queue)
    queue.purge(house.broker.now)
    house.broker.begin(house.broker.now + 5)
    while house.broker.run(1000):
        pass
    assert (queue.counters.expired, queue.messages, queue.ready_queue.tombstones) == (0, 0, 0)


def test_what_is_acknowledged_at_once_is_settled_at_once_and_freed_in_slices() -> None:
    house = Full()
    house.deliver_all()
    house.session.acknowledge(0, True, house.broker.now)
    assert (house.depth("q"), house.q.unacked_messages, house.session.has_unsettled()) == (0, 0, False)
    assert MANY - 2 * AT_ONCE <= leftovers(house.broker) <= MANY
    house.turns()
    assert leftovers(house.broker) == 0


# What comes back


def test_many_deliveries_come_back_a_slice_a_turn_in_their_order() -> None:
    house = Full()
    house.deliver_all()
    house.fill(5)
    requeue_all(house.broker, house.session, 0)
    assert not house.session.has_unsettled()
    back = [house.q.available()]
    while house.broker.pending():
        assert house.consumed() == [], "what is younger would overtake what is on its way"
        assert house.q.waiting() == MANY + 5
        house.broker.run(1000)
        back.append(house.q.available())
    assert max(after - before for before, after in pairwise(back)) <= UNITS_A_TURN + 256
    assert house.consumed() == [*range(MANY), *range(5)]
    assert (house.depth("q"), house.q.unacked_messages, house.q.coming_back) == (0, 0, 0)


def test_a_consumer_that_waits_gets_them_when_all_are_back() -> None:
    house = Full()
    house.deliver_all()
    house.broker.consume(house.session, Consumer("next", house.session, house.q, True, False, 0))
    requeue_all(house.broker, house.session, 0)
    assert house.broker.next_batch() is None
    house.turns()
    batch = house.broker.next_batch()
    assert batch is not None
    assert [message.content for message in batch.messages if message is not None][:2] == [b"0", b"1"]


def test_what_is_on_its_way_back_is_settled_for_its_consumer() -> None:
    house = Full()
    house.deliver_all()
    requeue_all(house.broker, house.session, MANY - 10)
    with pytest.raises(PreconditionFailed):
        house.session.acknowledge(MANY - 10, False, house.broker.now)
    assert house.session.unsettled() == 10
    house.session.acknowledge(0, True, house.broker.now)
    house.turns()
    assert (house.depth("q"), house.q.available()) == (MANY - 10, MANY - 10)


def test_an_unknown_tag_gives_nothing_back() -> None:
    house = Full()
    house.deliver_all()
    with pytest.raises(PreconditionFailed):
        requeue_all(house.broker, house.session, MANY + 1)
    assert house.session.unsettled() == MANY


def test_a_get_has_the_oldest_of_what_is_on_its_way_back() -> None:
    house = Full()
    house.deliver_all()
    house.fill(1)
    requeue_all(house.broker, house.session, 0)
    got = []
    for _ in range(3 * AT_ONCE):
        batch = house.session.get(house.q, True, house.broker.now)
        assert batch is not None
        assert batch.messages[0] is not None
        got.append(int(batch.messages[0].content))
    assert got == list(range(3 * AT_ONCE))


def test_deliveries_of_two_queues_come_back_each_to_its_own() -> None:
    house = Full()
    house.queue("other")
    other = house.vhost.queues["other"]
    house.fill(MANY, "other")
    for queue in (house.q, other):
        house.broker.consume(house.session, Consumer(queue.name, house.session, queue, False, False, 0))
    while house.broker.next_batch() is not None:
        pass
    for queue in (house.q, other):
        house.broker.cancel(house.session, queue.name)
    requeue_all(house.broker, house.session, 0)
    batch = house.session.get(other, True, house.broker.now)
    assert batch is not None
    assert batch.messages[0] is not None
    assert batch.messages[0].content == b"0"
    house.turns()
    assert (house.q.available(), other.available()) == (MANY, MANY - 1)
    assert house.q.returning == other.returning == {}


@pytest.mark.parametrize("how", ["purge", "delete"])
def test_what_is_on_its_way_back_goes_with_a_purge(how: str) -> None:
    house = Full()
    house.deliver_all()
    requeue_all(house.broker, house.session, 0)
    told = house.q.purge(house.broker.now) if how == "purge" else house.broker.delete_queue(house.q)
    assert told == MANY
    house.turns()
    assert (house.q.messages, house.q.bytes, house.q.unacked_messages, house.q.available()) == (0, 0, 0, 0)


def test_many_refused_deliveries_die_a_slice_a_turn() -> None:
    house = Full(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    house.queue("dead")
    house.deliver_all()
    refuse_all(house.broker, house.session, 0)
    assert not house.session.has_unsettled()
    dead = [0]
    while house.broker.pending():
        house.broker.run(1000)
        dead.append(house.depth("dead"))
        assert house.depth("q") + house.depth("dead") == MANY
    most = UNITS_A_TURN // (LETTER_UNITS + TARGET_UNITS) + 1
    assert max(after - before for before, after in pairwise(dead)) <= most
    assert (dead[-1], house.depth("q")) == (MANY, 0)


# What dies


def test_a_letter_to_many_queues_costs_as_many_times_as_much() -> None:
    house = Full(1000, x_dead_letter_exchange="all")
    house.vhost.declare_exchange("all", "fanout", {}, False, False, False)
    for number in range(99):
        house.queue(f"d{number}", capacity_messages=10_000)
        house.vhost.bind("all", house.vhost.queues[f"d{number}"], None, "", {})
    house.deliver_all()
    house.session.reject(0, True, house.broker.now)
    house.broker.run(1000)
    assert house.depth("d98") == UNITS_A_TURN // (LETTER_UNITS + 99 * TARGET_UNITS) + 1


def test_of_many_queues_only_so_many_messages_expire_in_a_turn() -> None:
    house = House()
    for number in range(20):
        house.queue(f"q{number}", message_ttl=1000)
        queue = house.vhost.queues[f"q{number}"]
        for _ in range(400):
            queue.enqueue(Envelope("", queue.name), b"x", CHARGE, house.broker.now)
        house.broker.touch_queue(queue)
    queues = [house.vhost.queues[f"q{number}"] for number in range(20)]
    house.broker.run(1000)
    expired = [0]
    while expired[-1] < 8000:
        house.broker.begin(house.broker.now + 1)
        house.broker.run(1000)
        while house.broker.next_batch() is not None:
            pass
        expired.append(sum(int(queue.counters.expired) for queue in queues))
    assert max(after - before for before, after in pairwise(expired)) == EXPIRED_A_TURN


def test_what_is_not_too_old_does_not_wait_for_what_is_in_other_queues() -> None:
    house = Full(3 * EXPIRED_A_TURN, message_ttl=1000)
    for number in range(5):
        house.queue(f"old{number}", message_ttl=1000)
        house.fill(1000, f"old{number}")
        house.broker.touch_queue(house.vhost.queues[f"old{number}"])
    house.broker.touch_queue(house.q)
    house.broker.run(1000)
    house.broker.begin(house.broker.now + 5)
    house.queue("fresh", message_ttl=60_000)
    house.fill(1, "fresh")
    fresh = house.vhost.queues["fresh"]
    house.broker.consume(house.session, Consumer("f", house.session, fresh, True, False, 0))
    house.broker.touch_queue(fresh)
    house.broker.run(1000)
    assert house.broker.expirable == 0
    assert house.broker.next_batch() is not None


def test_who_displaces_messages_waits_while_too_many_of_them_are_not_seen_to() -> None:
    house = Full(10, capacity_messages=10, overflow="drop-head", dead_letter_exchange="", dead_letter_routing_key="d")
    house.queue("d")
    writer = house.producer("p")
    for _ in range(LOOSE_MAX + 50):
        house.publish(writer, "q", CHARGE)
    letters = house.q.dead_letters
    assert letters is not None
    assert (letters.loose, len(writer.outbox)) == (LOOSE_MAX, 50)
    house.turns()
    assert (letters.loose, len(writer.outbox), house.q.counters.dead_letters_lost) == (0, 0, 0)
    assert house.depth("d") == LOOSE_MAX + 50
    assert [outcome[2] for outcome in told(writer)] == [True]


def test_who_is_refused_into_the_dead_letters_waits_likewise() -> None:
    house = Full(1, x_max_length=1, overflow="reject-publish-dlx", dead_letter_exchange="", dead_letter_routing_key="d")
    house.queue("d")
    writer = house.producer("p")
    for _ in range(LOOSE_MAX + 50):
        house.publish(writer, "q", CHARGE)
    assert len(writer.outbox) == 50
    house.turns()
    assert (house.depth("d"), len(writer.outbox)) == (LOOSE_MAX + 50, 0)
    assert {outcome[2] for outcome in told(writer)} == {False}


def test_nobody_waits_for_dead_letters_of_a_queue_that_has_none_any_more() -> None:
    house = Full(10, capacity_messages=10, overflow="drop-head", dead_letter_exchange="", dead_letter_routing_key="d")
    house.queue("d")
    writer = house.producer("p")
    for _ in range(LOOSE_MAX + 5):
        house.publish(writer, "q", CHARGE)
    house.broker.delete_queue(house.q)
    house.turns()
    assert writer.outbox == type(writer.outbox)()
    assert house.depth("d") == LOOSE_MAX


# Room for a large one


def test_a_large_message_displaces_many_a_slice_a_turn() -> None:
    count = 3 * UNITS_A_TURN * DROPPED_A_UNIT
    house = Full(count, capacity_bytes=count * CHARGE, overflow="drop-head")
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
    house = Full(MANY, capacity_bytes=MANY * CHARGE, overflow="drop-head")
    writer, small = house.producer("p"), house.producer("s")
    house.publish(writer, "q", MANY * CHARGE)
    house.publish(small, "q", CHARGE)
    writer.abort()
    house.turns()
    assert small.outbox == type(small.outbox)()
    assert not house.q.gate.waiters


# What a cursor has settled


def test_what_a_cursor_settles_leaves_a_slice_a_turn() -> None:
    count = 2 * UNITS_A_TURN * SETTLED_A_UNIT
    house = Full(count)
    cursor = Cursor("/", "c")
    cursor.attach([house.q], {"q": "earliest"}, house.broker.now)
    assert cursor.settle("q", count - 5, house.broker.now) == count - 5
    left = house.depth("q")
    assert left == count - AT_ONCE
    assert cursor.plan("q", count - 5, 100, 1 << 30, count) == (count, 5, 5 * CHARGE)
    while house.broker.pending():
        house.broker.run(1000)
        assert left - house.depth("q") <= UNITS_A_TURN * SETTLED_A_UNIT
        left = house.depth("q")
    assert left == 5


def test_who_consumes_after_a_cursor_gets_nothing_that_it_has_settled() -> None:
    house = Full()
    cursor = Cursor("/", "c")
    cursor.attach([house.q], {"q": "earliest"}, house.broker.now)
    cursor.settle("q", MANY - 5, house.broker.now)
    cursor.delete(house.broker.now)
    with pytest.raises(NotFound):
        cursor.position("q")
    assert house.consumed() == list(range(MANY - 5, MANY))
    assert house.turns() <= 1
