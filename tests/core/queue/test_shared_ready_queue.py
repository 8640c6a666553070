"""Cursors beside consumers on one queue: the shares of both, and planned ranges that never change."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.queue.cursor_state import LeaseState, Position, holds_back, lag_of, pin
from penstock.core.queue.indexed_ready_queue import CHUNK
from penstock.core.queue.shared_ready_queue import SharedReadyQueue
from penstock.errors import ResourceLocked
from penstock.ranges.cursors import Cursor, earliest_offset
from tests.profiles import examples
from tests.support import attached_cursors
from tests.support.attached_cursors import sequences
from tests.support.paging_broker import house_with

ALL = 1 << 62


class Desk(attached_cursors.Desk):
    """The same with a session that gets and consumes."""

    def __init__(self, messages: int = 0, **arguments: object) -> None:
        super().__init__(messages, **arguments)
        self.session = Session()

    def get(self) -> int | None:
        """Take a message; its delivery tag is the number of messages taken so far."""
        batch = self.session.get(self.queue, False, 0.0)
        if batch is None:
            return None
        (message,) = batch.messages
        return int(message.sequence)

    def give_back(self, tag: int) -> None:
        self.session.unsettled.settle_tag(tag, False, Outcome.FAILED, 0.0)

    def consume(self, prefetch: int) -> Consumer:
        consumer = Consumer("t", self.session, self.queue, False, False, prefetch)
        self.broker.consume(self.session, consumer)
        return consumer

    def delivered(self) -> list[int]:
        """Take all deliveries that are possible now."""
        found: list[int] = []
        while True:
            batch = self.broker.next_batch()
            if batch is None:
                return found
            found += [int(message.sequence) for message in batch.messages if message is not None]


def plan(cursor: Cursor, rows: int = ALL) -> list[int]:
    """Plan from the settled position on; returns what was planned."""
    start = int(cursor.positions["q"].settled)
    end, _, _ = cursor.plan("q", start, rows, ALL, ALL)
    return sequences(cursor, start, int(end))


def test_planning_acquires_messages_and_consumers_get_the_rest() -> None:
    desk = Desk(10)
    assert [desk.get(), desk.get()] == [1, 2]
    cursor = desk.attach()
    assert plan(cursor, 3) == [3, 4, 5]
    desk.consume(prefetch=2)
    assert desk.delivered() == [6, 7]
    assert plan(cursor) == [3, 4, 5, 8, 9, 10]
    assert desk.queue.waiting() == 6
    assert desk.queue.available() == 0
    cursor.settle("q", 10, 0.0)
    assert (desk.queue.messages, desk.queue.unacked_messages) == (4, 4), "what consumers have is not settled"
    desk.session.unsettled.acknowledge(0, True, 0.0)
    assert desk.queue.messages == 0


def test_message_that_comes_back_below_the_plan_is_for_consumers_alone() -> None:
    desk = Desk(6)
    for _ in range(3):
        desk.get()
    cursor = desk.attach()
    assert plan(cursor, 2) == [4, 5]
    desk.give_back(2)
    assert sequences(cursor, 0, 5) == [4, 5]
    assert desk.get() == 2
    desk.give_back(4)
    cursor.settle("q", 5, 0.0)
    assert desk.queue.messages == 4
    assert desk.attach("another").positions["q"].initial == 5
    assert plan(cursor) == [6]
    cursor.settle("q", 6, 0.0)
    assert [desk.get(), desk.get()] == [2, None]


def test_message_returned_beyond_the_plan_goes_to_the_first_reader() -> None:
    desk = Desk(6)
    cursor = desk.attach()
    assert plan(cursor, 2) == [1, 2]
    assert [desk.get(), desk.get()] == [3, 4]
    desk.give_back(1)
    assert plan(cursor) == [1, 2, 3, 5, 6]


def test_messages_acquired_by_a_cursor_are_read_by_all_cursors() -> None:
    desk = Desk(6)
    one, other = desk.attach("one"), desk.attach("other")
    assert plan(one, 4) == [1, 2, 3, 4]
    assert desk.get() == 5
    one.settle("q", 4, 0.0)
    assert plan(other) == [1, 2, 3, 4, 6]
    assert plan(one) == [6]


def test_new_cursor_at_the_end_leaves_the_backlog_to_consumers() -> None:
    desk = Desk(2 * CHUNK)
    desk.consume(prefetch=5)
    assert desk.delivered() == [1, 2, 3, 4, 5]
    cursor = desk.attach(starting="latest")
    assert desk.queue.messages == 2 * CHUNK
    desk.put(3)
    assert plan(cursor) == [2 * CHUNK + 1, 2 * CHUNK + 2, 2 * CHUNK + 3]
    assert [desk.get() for _ in range(2 * CHUNK - 4)] == [*range(6, 2 * CHUNK + 1), None]


def test_end_of_the_slower_cursor_leaves_messages_of_no_cursor_to_consumers() -> None:
    desk = Desk(4)
    desk.consume(prefetch=1)
    slow = desk.attach("slow")
    assert plan(slow, 1) == [1]
    desk.attach("late", "latest")
    slow.delete(0.0)
    assert desk.queue.messages == 3, "what only the deleted cursor had acquired is gone"
    assert desk.delivered() == [2]
    assert [desk.get(), desk.get(), desk.get()] == [3, 4, None]


def test_queue_is_ordinary_again_once_the_last_cursor_is_deleted() -> None:
    desk = Desk(8)
    for _ in range(4):
        desk.get()
    cursor = desk.attach()
    assert plan(cursor, 2) == [5, 6]
    desk.give_back(2)
    desk.give_back(4)
    cursor.delete(0.0)
    assert not isinstance(desk.queue.ready_queue, SharedReadyQueue)
    assert plan(desk.attach("new")) == [2, 4, 5, 6, 7, 8]
    desk.vhost.delete_queue(desk.queue, 0.0)
    assert desk.queue.messages == 2, "what is unacknowledged"


def test_exclusive_consumer_and_cursor_exclude_each_other() -> None:
    desk, other = Desk(), Desk()
    desk.attach()
    with pytest.raises(ResourceLocked, match="read by cursor 'c'; browsers, exclusive consumers"):
        desk.broker.consume(desk.session, Consumer("t", desk.session, desk.queue, False, True, 0))
    other.broker.consume(other.session, Consumer("t", other.session, other.queue, False, True, 0))
    with pytest.raises(ResourceLocked, match="has an exclusive consumer; cursor 'c' cannot read it"):
        other.attach()
    assert not isinstance(other.queue.ready_queue, SharedReadyQueue)


def test_queue_that_pages_has_consumers_or_cursors() -> None:
    house = house_with(messages=50)
    house.get("q", no_ack=False)
    cursor = Cursor("/", "c")
    with pytest.raises(ResourceLocked, match="pages, and has 0 consumers and 1 unacknowledged messages"):
        cursor.attach([house.queues["q"]], {"q": "earliest"}, 0.0)
    house.session.unsettled.acknowledge(0, True, 0.0)
    cursor.attach([house.queues["q"]], {"q": "earliest"}, 0.0)
    with pytest.raises(ResourceLocked, match="those of a queue that pages, or has groups, must wait"):
        house.broker.consume(house.session, Consumer("t", house.session, house.queues["q"], False, False, 0))


@dataclass
class Model:
    """Who has which message."""

    ready: set[int] = field(default_factory=set)
    aside: set[int] = field(default_factory=set)
    unacked: dict[int, int] = field(default_factory=dict)
    acquired: int = 0

    def next(self) -> int | None:
        """Return what a consumer gets next."""
        free = [sequence for sequence in self.ready if sequence > self.acquired]
        return min(self.aside or free, default=None)


STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 5), st.just(0)),
    st.tuples(st.just("get"), st.just(0), st.just(0)),
    st.tuples(st.just("ack"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("return"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("plan"), st.integers(0, 1), st.integers(1, 8)),
    st.tuples(st.just("settle"), st.integers(0, 1), st.integers(1, 8)),
)


@settings(max_examples=examples(1500), derandomize=True, database=None)
@given(st.lists(STEPS, min_size=15, max_size=60))
def test_cursors_and_consumers_agree_with_a_model(steps: list[tuple[str, int, int]]) -> None:
    desk, model = Desk(), Model()
    cursors = [desk.attach("a"), desk.attach("b")]
    planned: list[dict[int, int]] = [{}, {}]
    """The messages of each cursor's plans, with the end of the plan."""
    taken = 0
    consumed: set[int] = set()
    for step, one, two in steps:
        if step == "put":
            desk.put(one)
            tail = int(desk.queue.tail)
            model.ready |= set(range(tail - one + 1, tail + 1))
        elif step == "get":
            expected = model.next()
            assert desk.get() == expected
            if expected is not None:
                taken += 1
                model.unacked[taken] = expected
                model.ready.discard(expected)
                model.aside.discard(expected)
        elif step in ("ack", "return") and model.unacked:
            tag = sorted(model.unacked)[one % len(model.unacked)]
            sequence = model.unacked.pop(tag)
            if step == "ack":
                desk.session.unsettled.acknowledge(tag, False, 0.0)
                consumed.add(sequence)
            else:
                desk.give_back(tag)
                (model.aside if sequence <= model.acquired else model.ready).add(sequence)
        elif step == "plan":
            start = int(cursors[one].positions["q"].planned)
            rest = sorted(sequence for sequence in model.ready if sequence > start)[:two]
            end, count, _ = cursors[one].plan("q", start, two, ALL, ALL)
            assert (int(end), int(count)) == (rest[-1] if rest else start, len(rest))
            model.acquired = max(model.acquired, int(end))
            planned[one] |= dict.fromkeys(rest, int(end))
        elif step == "settle":
            position = cursors[one].positions["q"]
            end = min(int(position.planned), int(position.settled) + two)
            cursors[one].settle("q", end, 0.0)
            passed = min(int(cursor.positions["q"].settled) for cursor in cursors)
            model.ready = {sequence for sequence in model.ready if sequence > passed}
        for which, cursor in enumerate(cursors):
            position = cursor.positions["q"]
            lo, hi = int(position.settled), int(position.planned)
            assert sequences(cursor, lo, hi) == [sequence for sequence in planned[which] if sequence > lo]
        assert desk.queue.messages == len(model.ready) + len(model.aside) + len(model.unacked)
        free = [sequence for sequence in model.ready if sequence > model.acquired]
        assert desk.queue.available() == len(model.aside) + len(free)
    assert not consumed & (planned[0].keys() | planned[1].keys())
    common = min(int(cursor.positions["q"].planned) for cursor in cursors)
    both = [[sequence for sequence in each if sequence <= common] for each in planned]
    assert both[0] == both[1]


# Pins of leases


def leased(desk: Desk, number: int, lo: int, hi: int) -> Cursor:
    """Pin a range of the queue."""
    cursor = Cursor("/", f"lease {number}")
    cursor.lease = LeaseState(number, "/", "guest", "con:1", 300.0)
    position = Position(desk.queue, lo)
    position.planned = hi
    cursor.positions["q"] = position
    desk.queue.cursors.append(cursor)
    pin(desk.queue)
    return cursor


def left(desk: Desk) -> list[int]:
    return [int(message.sequence) for message in desk.queue.ready_queue.messages()]


def test_pinned_range_alone_stays_when_a_cursor_settles_all() -> None:
    desk = Desk(10)
    cursor = desk.attach()
    lease = leased(desk, 1, 2, 5)
    cursor.settle("q", 8, 0.0)
    assert left(desk) == [3, 4, 5, 9, 10]
    assert sequences(lease, 2, 5) == [3, 4, 5]
    desk.put(5)
    cursor.settle("q", 15, 0.0)
    assert left(desk) == [3, 4, 5], "what came later is not pinned"
    lease.delete(0.0)
    assert left(desk) == []
    assert desk.queue.depth_messages() == 0


def test_pins_that_overlap_hold_until_the_last_pin_ends() -> None:
    desk = Desk(10)
    cursor = desk.attach()
    first, second = leased(desk, 1, 1, 5), leased(desk, 2, 3, 8)
    assert desk.queue.ready_queue.pins == [(1, 8)]
    cursor.settle("q", 10, 0.0)
    assert left(desk) == [2, 3, 4, 5, 6, 7, 8]
    first.delete(0.0)
    assert left(desk) == [4, 5, 6, 7, 8]
    assert sequences(second, 3, 8) == [4, 5, 6, 7, 8]
    second.delete(0.0)
    assert left(desk) == []


def test_settled_messages_pinned_by_a_lease_never_return_after_the_cursor() -> None:
    desk = Desk(6)
    cursor = desk.attach()
    plan(cursor)
    lease = leased(desk, 1, 0, 4)
    cursor.settle("q", 2, 0.0)
    cursor.delete(0.0)
    assert [desk.get() for _ in range(3)] == [3, 4, 5], "the unsettled ones are everybody's again, pinned or not"
    assert desk.attach("again").position("q").settled >= 2
    desk.queue.cursors[-1].delete(0.0)
    lease.delete(0.0)
    assert left(desk) == [6]
    assert not isinstance(desk.queue.ready_queue, SharedReadyQueue)


def test_lag_of_a_cursor_omits_messages_pinned_by_a_lease() -> None:
    desk = Desk(20)
    cursor = desk.attach()
    leased(desk, 1, 0, 10)
    cursor.settle("q", 15, 0.0)
    assert len(left(desk)) == 15
    assert lag_of(cursor.position("q"), desk.broker.work).messages == 5
    assert holds_back(cursor.position("q"))
    assert earliest_offset(desk.queue) == 15, "pinned messages that are settled are there for their lease alone"


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5), st.lists(st.integers(1, 60), max_size=6)
)
def test_queue_keeps_messages_that_are_pinned_or_unsettled(pins: list[tuple[int, int]], ends: list[int]) -> None:
    desk = Desk(60)
    cursor = desk.attach()
    leases = [leased(desk, number, lo, hi) for number, (lo, hi) in enumerate(pins)]
    settled = 0
    for end in ends:
        cursor.settle("q", end, 0.0)
        settled = max(settled, end)
        pinned = {each for lo, hi in pins for each in range(lo + 1, hi + 1)}
        assert left(desk) == [each for each in range(1, 61) if each > settled or each in pinned]
    while leases:
        leases.pop().delete(0.0)
        pins = pins[: len(leases)]
        pinned = {each for lo, hi in pins for each in range(lo + 1, hi + 1)}
        assert left(desk) == [each for each in range(1, 61) if each > settled or each in pinned]


def test_oldest_arrival_includes_messages_of_cursors_and_of_consumers() -> None:
    desk = Desk(4)
    arrivals = {sequence: float(sequence) for sequence in range(1, 5)}
    for message in desk.queue.ready_queue.messages():
        message.arrived = arrivals[int(message.sequence)]
    assert desk.get() == 1
    cursor = desk.attach()
    assert plan(cursor, 2) == [2, 3]
    assert desk.queue.ready_queue.oldest_arrival() == 2.0, "planned messages are ready until they are settled"
    desk.give_back(1)
    assert desk.queue.ready_queue.oldest_arrival() == 1.0, "a requeued message is left to consumers"
    assert desk.get() == 1
    cursor.settle("q", 3, 0.0)
    assert desk.queue.ready_queue.oldest_arrival() == 4.0
