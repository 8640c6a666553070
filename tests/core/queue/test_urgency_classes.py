"""The two classes of a quorum queue: their order, and properties that do not depend on it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.message import Envelope, Message
from penstock.core.queue.expiry import expire
from penstock.core.queue.indexed_ready_queue import CHUNK, IndexedReadyQueue, indexed, lines_of
from penstock.core.queue.queue import Queue
from penstock.core.queue.ready_queue import Priorities, ReadyQueue
from penstock.core.queue.shared_ready_queue import SharedReadyQueue
from penstock.core.queue.urgency import URGENT_FROM, URGENT_IN_A_ROW
from penstock.core.queue.urgency_classes import divided, in_order, oldest_of
from penstock.errors import PreconditionFailed
from penstock.flow.timers import NEVER
from penstock.ranges.cursors import Cursor
from penstock.ranges.times import TimeSearch
from tests.profiles import examples
from tests.support.attached_cursors import attached, sequences
from tests.support.memory_store import Shelf
from tests.support.paging_broker import PagedHouse
from tests.support.ready_messages import message, pulled
from tests.support.selecting_bench import SelectingBench

QUORUM: dict[str, object] = {"x-queue-type": "quorum"}


def filled(*priorities: int, index: bool = False) -> Priorities:
    """Return classes with messages of these priorities, numbered from 1 on."""
    line = ReadyQueue()
    classes = divided(indexed(line) if index else line)
    assert isinstance(classes, Priorities)
    for sequence, priority in enumerate(priorities, 1):
        classes.append(message(sequence, priority))
    return classes


ORDERS: dict[str, tuple[list[int], list[int]]] = {
    "urgent ones pass, two for one": ([0, 0, 0, 9, 9, 9, 9, 9], [4, 5, 1, 6, 7, 2, 8, 3]),
    "4 is not urgent, 5 is": ([0, 4, 5], [3, 1, 2]),
    "urgent ones have one line, whatever their priority": ([5, 255, 9, 6], [1, 2, 3, 4]),
    "others have one line, whatever their priority": ([0, 4, 1, 2], [1, 2, 3, 4]),
    "older urgent ones do not wait": ([9, 9, 9, 9, 0], [1, 2, 3, 4, 5]),
    "the third urgent one in a row waits for older ones only": ([9, 9, 0, 9], [1, 2, 3, 4]),
}


@pytest.mark.parametrize("index", [False, True], ids=["plain", "indexed"])
@pytest.mark.parametrize("name", ORDERS)
def test_urgency_classes_serve_two_urgent_messages_per_normal_message(name: str, index: bool) -> None:
    priorities, order = ORDERS[name]
    assert pulled(filled(*priorities, index=index)) == order


Script = list[tuple[str, int]]


@dataclass
class Model:
    """What the classes should do, as RabbitMQ's rule says it, in lists."""

    urgent: list[int]
    others: list[int]
    row: int = 0

    def line(self, is_urgent: bool) -> list[int]:
        return self.urgent if is_urgent else self.others

    def turn(self) -> bool:
        """Return whether the next one is urgent."""
        if not self.urgent or not self.others:
            return bool(self.urgent)
        return self.row < URGENT_IN_A_ROW or self.urgent[0] < self.others[0]


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "take", "return", "expire", "sweep"]), st.integers(0, 9)), max_size=90
)


@settings(max_examples=examples(200), deadline=None)
@given(STEPS, st.booleans())
def test_urgency_classes_agree_with_a_model(steps: Script, index: bool) -> None:
    classes, model = filled(index=index), Model([], [])
    away: list[Message] = []
    for sequence, (step, number) in enumerate(steps, 1):
        if step == "put":
            classes.append(message(sequence, number, ttl_s=NEVER if number % 2 else 1.0))
            model.line(number >= URGENT_FROM).append(sequence)
        elif step == "take" and classes.available():
            is_urgent = model.turn()
            expected = model.line(is_urgent).pop(0)
            model.row = min(model.row + 1, URGENT_IN_A_ROW) if is_urgent else 0
            following = classes.next()
            assert following is not None
            away.append(classes.pull())
            assert (int(following.sequence), int(away[-1].sequence)) == (expected, expected)
        elif step == "return" and away:
            back = away.pop(number % len(away))
            line = model.line(int(back.envelope.priority) >= URGENT_FROM)
            line.append(int(back.sequence))
            line.sort()
            classes.put_back(back)
        elif step == "expire":
            gone = classes.take_due(1.0, NEVER, 100.0)
            if gone is None:
                assert all(each.envelope.ttl_s == NEVER for each in classes.messages())
            else:
                model.line(int(gone.envelope.priority) >= URGENT_FROM).remove(int(gone.sequence))
        elif step == "sweep":
            classes.begin_sweep()
            while not classes.is_swept():
                classes.sweep(1)
        assert sorted(int(each.sequence) for each in classes.messages()) == sorted(model.urgent + model.others)
        assert int(classes.available()) == len(model.urgent) + len(model.others)
        oldest = oldest_of(classes)
        assert (0 if oldest is None else int(oldest.sequence)) == min(model.urgent + model.others, default=0)
    assert pulled(in_order(classes)) == sorted(model.urgent + model.others)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=400))
def test_urgency_classes_starve_neither_class(arrivals: list[bool]) -> None:
    classes = filled(*[9 if urgent else 0 for urgent in arrivals])
    others_waited = 0
    for _ in arrivals:
        other = classes.lines[len(classes.lines) - 1].next()
        taken = classes.pull()
        passed = taken is not other and other is not None and taken.sequence > other.sequence
        others_waited = others_waited + 1 if passed else 0
        assert others_waited <= URGENT_IN_A_ROW


def test_urgency_classes_offer_a_run_only_while_a_class_is_empty() -> None:
    classes = filled(0, 0)
    assert [int(each.sequence) for each in classes.contiguous()] == [1, 2]
    classes.append(message(3, 9))
    assert not classes.contiguous()
    for _ in range(3):
        classes.pull()
    assert classes.available() == 0
    classes.append(message(4, 9))
    assert [int(each.sequence) for each in classes.contiguous()] == [4]


@pytest.mark.parametrize("index", [False, True], ids=["plain", "indexed"])
def test_urgency_classes_merge_into_a_single_line_in_order(index: bool) -> None:
    count = 3 * CHUNK
    classes = filled(*[9 if number % 3 == 0 else 0 for number in range(count)], index=index)
    away = [classes.pull() for _ in range(6)]
    for each in away[1:]:
        classes.put_back(each)
    line = in_order(classes)
    assert isinstance(line, IndexedReadyQueue)
    line.append(message(count + 1, 0))
    assert pulled(line) == [number for number in range(1, count + 2) if number != int(away[0].sequence)]


def test_urgency_classes_keep_the_line_that_routes_append_to() -> None:
    line = ReadyQueue()
    append = line.ready_for(0).append
    append(message(1))
    classes = divided(line)
    classes.append(message(2, 9))
    append(message(3))
    assert pulled(classes) == [2, 1, 3]
    classes.pull() if classes.available() else append(message(4))
    assert in_order(classes) is line, "no urgent message waits, so the line is as it was"


@pytest.mark.parametrize("ready", [Priorities(9), SharedReadyQueue(IndexedReadyQueue(ReadyQueue()))])
def test_ready_messages_with_another_order_are_not_divided(ready: ReadyQueue) -> None:
    assert divided(ready) is ready
    assert in_order(ready) is ready


# Queues


class Bench:
    """A queue of type quorum on a broker with a disk, or another queue."""

    def __init__(self, **arguments: object) -> None:
        self._begin(Shelf(), {**QUORUM, **{key.replace("_", "-"): value for key, value in arguments.items()}})

    def _begin(self, shelf: Shelf, arguments: dict[str, object]) -> None:
        self.shelf, self.arguments = shelf, arguments
        self.house = PagedHouse(self.shelf, {"q": (self.arguments, True)})
        self.queue: Queue = self.house.queues["q"]

    def put(self, *priorities: int, persistent: bool = True) -> None:
        """Publish messages by the route of their priority; each has its sequence as its content."""
        for priority in priorities:
            route = self.house.vhost.route("", "q", False)
            self.house.vhost.resolve(route, {})
            route = route.with_priority(priority)
            producer = self.house.producers["q"]
            producer.publish(route.persistent() if persistent else route, b"%d" % (self.queue.tail + 1), 300)

    def take(self, count: int, no_ack: bool = True) -> list[int]:
        """Take messages one by one; return their sequences."""
        found = [self.house.get("q", no_ack) for _ in range(count)]
        return [int(each.sequence) for each in found if each is not None]

    def after_a_restart(self) -> Bench:
        """Return the queue of the next broker on the same store."""
        self.house.write()
        bench = Bench.__new__(Bench)
        bench._begin(self.shelf, self.arguments)
        return bench


def test_quorum_queue_serves_urgent_messages_first_unlike_a_classic_queue() -> None:
    bench = Bench()
    bench.put(0, 0, 0, 9, 5, 9)
    assert bench.take(6) == [4, 5, 1, 6, 2, 3]
    bench = Bench(x_queue_type="classic")
    bench.put(0, 0, 0, 9, 5, 9)
    assert bench.take(6) == [1, 2, 3, 4, 5, 6]


def test_quorum_queue_without_urgent_messages_has_a_single_line() -> None:
    bench = Bench()
    bench.put(0, 4, 1, 0)
    assert type(bench.queue.ready_queue) is ReadyQueue
    assert bench.take(4) == [1, 2, 3, 4]


def test_route_of_urgent_messages_to_a_quorum_queue_holds_no_line() -> None:
    bench = Bench()
    plain = bench.house.vhost.route("", "q", False)
    bench.house.vhost.resolve(plain, {})
    assert plain.single_queue is bench.queue
    assert plain.with_priority(4).single_queue is bench.queue
    assert plain.persistent().stored_queue is bench.queue
    for urgent in (plain.with_priority(5), plain.persistent().with_priority(9)):
        assert (urgent.single_queue, urgent.stored_queue) == (None, None)


def test_quorum_queue_counts_urgent_messages_in_the_depth_and_capacity() -> None:
    bench = Bench(capacity_messages=3, x_overflow="reject-publish")
    bench.put(0, 9, 9, 9, 0)
    assert (bench.queue.depth_messages(), bench.queue.depth_bytes()) == (3, 900)
    assert bench.queue.counters.refused == 2
    assert bench.take(4) == [2, 3, 1]
    assert (bench.queue.depth_messages(), bench.queue.depth_bytes()) == (0, 0)


def test_quorum_queue_returns_messages_to_the_class_and_position() -> None:
    bench = Bench()
    bench.put(0, 0, 9, 9)
    assert bench.take(3, no_ack=False) == [3, 4, 1]
    bench.house.session.unsettled.settle(1, 3, Outcome.RELEASED, 100.0)
    assert bench.queue.unacked_messages == 0
    assert bench.take(4) == [3, 4, 1, 2]


def test_quorum_queue_applies_the_delivery_limit_to_urgent_messages() -> None:
    bench = Bench(x_delivery_limit=1)
    bench.put(0, 9)
    for number in (1, 2):
        assert bench.take(1, no_ack=False) == [2]
        bench.house.session.unsettled.settle(number, number, Outcome.FAILED, 100.0)
    assert bench.take(2) == [1]
    assert bench.queue.depth_messages() == 0


DROPS: dict[str, dict[str, object]] = {
    "length": {"x_max_length": 3},
    "capacity": {"capacity_messages": 3, "x_overflow": "drop-head"},
}


@pytest.mark.parametrize("limit", DROPS)
def test_full_quorum_ring_drops_the_message_that_would_be_delivered_next(limit: str) -> None:
    bench = Bench(**DROPS[limit])
    bench.put(0, 0, 9)
    bench.put(0)
    assert bench.queue.depth_messages() == 3
    assert bench.take(3) == [1, 2, 4], "as in RabbitMQ, the urgent one went"


def test_quorum_queue_expires_messages_of_both_classes() -> None:
    bench = Bench(x_message_ttl=1000)
    bench.put(0, 9, 0, 9)
    bench.house.step(0.5)
    bench.put(9)
    bench.house.step(0.7)
    assert expire(bench.queue, bench.house.now, bench.house.now)
    assert bench.take(5) == [5]
    assert bench.queue.counters.expired == 4


@pytest.mark.parametrize("count", [3, 2000], ids=["at once", "in slices"])
def test_purge_of_a_quorum_queue_leaves_no_message_of_either_class(count: int) -> None:
    bench = Bench()
    bench.put(*[0, 9] * count)
    assert bench.house.vhost.purge_queue(bench.queue, 100.0) == 2 * count
    bench.put(0, 9)
    bench.house.settle()
    assert bench.take(3) == [2 * count + 2, 2 * count + 1]
    assert (bench.queue.depth_messages(), bench.queue.available()) == (0, 0)


@pytest.mark.parametrize("priority", [4, 5, 9])
def test_restart_leaves_messages_in_the_classes(priority: int) -> None:
    bench = Bench()
    bench.put(0, 0, priority, priority)
    bench = bench.after_a_restart()
    assert isinstance(bench.queue.ready_queue, Priorities) == (priority >= URGENT_FROM)
    assert bench.take(4) == ([3, 4, 1, 2] if priority >= URGENT_FROM else [1, 2, 3, 4])


def test_restart_leaves_urgent_messages_that_were_unacknowledged_urgent() -> None:
    bench = Bench()
    bench.put(0, 9, 9)
    assert bench.take(1, no_ack=False) == [2]
    bench = bench.after_a_restart()
    first = bench.house.get("q")
    assert first is not None
    assert (int(first.sequence), first.redelivered) == (2, True)
    assert bench.take(2) == [3, 1]


def test_queue_of_type_quorum_still_refuses_x_max_priority() -> None:
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-max-priority' for a queue of type quorum"):
        Bench(x_max_priority=5)


# Queues that are read in order


def test_cursor_reads_a_quorum_queue_in_the_order_of_sequences() -> None:
    bench = Bench()
    bench.put(0, 9, 0, 9)
    cursor = attached(bench.queue)
    cursor.plan("q", 0, 10, 1 << 30, 4)
    bench.put(9, 0)
    assert sequences(cursor, 0, 4) == [1, 2, 3, 4]
    assert sequences(cursor, 4, 6) == [5, 6]


def test_cursor_begins_at_the_oldest_message_of_either_class() -> None:
    bench = Bench()
    bench.put(0, 0, 9)
    assert bench.take(1) == [3]
    bench.put(9)
    cursor = attached(bench.queue)
    assert sequences(cursor, 0, 9) == [1, 2, 4]


def test_urgent_messages_come_first_again_when_the_cursor_is_gone() -> None:
    bench = Bench()
    bench.put(0, 9)
    cursor = attached(bench.queue)
    bench.put(0, 9)
    assert isinstance(bench.queue.ready_queue, SharedReadyQueue)
    cursor.delete(100.0)
    assert bench.queue.cursors == []
    bench.put(9)
    assert bench.take(5) == [5, 1, 2, 3, 4], "those that the cursor could read have lost their class"


def test_quorum_queue_that_pages_keeps_the_order_of_arrival() -> None:
    bench = Bench(x_overflow="page", capacity_messages=4)
    bench.put(0, 9, 0, 9, 0, 9, 9, 9)
    bench.house.settle()
    assert [int(content) for content in bench.house.drain("q")] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_quorum_queue_that_begins_to_page_keeps_the_order_of_arrival() -> None:
    bench = Bench(capacity_messages=6)
    bench.put(0, 9, 0, 9)
    bench.house.set("q", overflow="page")
    bench.put(9, 0, 9, 9)
    bench.house.settle()
    assert [int(content) for content in bench.house.drain("q")] == [1, 2, 3, 4, 5, 6, 7, 8]


SETTLED_BY = {"settle": Outcome.ACCEPTED, "release": Outcome.RELEASED}
OPERATIONS = ["put", "put", "put", "take", "take", "settle", "release", "cursor", "leave", "look", "page", "restart"]


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9)), max_size=60), st.booleans())
def test_quorum_queue_loses_and_duplicates_no_message_for_any_readers(steps: Script, pages: bool) -> None:
    bench = Bench(**({"x_overflow": "page", "capacity_messages": 4} if pages else {"capacity_messages": 50}))
    there: set[int] = set()
    away: dict[int, int] = {}
    """Sequences of deliveries that are not settled, by their numbers."""
    cursor: Cursor | None = None
    for step, number in steps:
        queue, session = bench.queue, bench.house.session
        if step == "put":
            bench.put(number)
            there.add(int(queue.tail))
        elif step == "take":
            before = int(session.unsettled.next_number)
            for sequence in bench.take(1, no_ack=False):
                away[before] = sequence
        elif step in ("settle", "release") and away:
            oldest = min(away)
            session.unsettled.settle(oldest, oldest, SETTLED_BY[step], 100.0)
            sequence = away.pop(oldest)
            there -= {sequence} if step == "settle" else set()
        elif step == "cursor" and cursor is None and (queue.pager is None or not away):
            cursor = attached(queue)
            cursor.plan("q", int(cursor.positions["q"].settled), number, 1 << 30, int(queue.tail))
        elif step == "leave" and cursor is not None:
            cursor.delete(100.0)
            cursor = None
        elif step == "look" and cursor is None:
            TimeSearch(queue, 0, 0.0, lambda: None).go_on()
        elif step == "page" and not pages and cursor is None:
            bench.house.set("q", overflow="page")
        elif step == "restart":
            bench, cursor = bench.after_a_restart(), None
            away.clear()
        bench.house.settle()
        assert bench.queue.depth_messages() == len(there)
        assert bench.queue.unacked_messages == len(away)
        ready = [int(each.sequence) for each in bench.queue.ready_queue.messages()]
        assert len(ready) == len(set(ready))
        assert set(ready) <= there - set(away.values())
    if cursor is not None:
        cursor.delete(100.0)
    bench.house.session.unsettled.settle(1, 1 << 40, Outcome.RELEASED, 100.0)
    found = [int(content) for content in bench.house.drain("q")]
    assert sorted(found) == sorted(there)


# Consumers


def test_consumer_of_a_quorum_queue_gets_batches_in_the_order_of_classes() -> None:
    bench = quorum_bench()
    bench.put(*["red"] * 4)
    bench.put(*["red"] * 4, priority=9)
    bench.attach("a", credit=5)
    bench.deliver()
    assert bench.got["a"] == [5, 6, 1, 7, 8]
    assert (bench.queue.messages, bench.queue.unacked_messages) == (8, 5)


@pytest.mark.parametrize("credit", [1, 2, 3, 100])
def test_selector_of_a_quorum_queue_gets_two_urgent_messages_per_normal_message(credit: int) -> None:
    bench = quorum_bench()
    bench.put(*["red", "blue"] * 3)
    bench.put(*["blue", "red"] * 5, priority=9)
    consumer = bench.attach("a", "color = 'red'", credit=credit)
    bench.deliver()
    while len(bench.got["a"]) < 8:
        before = len(bench.got["a"])
        bench.grant(consumer, credit)
        bench.deliver()
        assert len(bench.got["a"]) > before
    assert bench.got["a"] == [8, 10, 1, 12, 14, 3, 16, 5]
    assert bench.ready() == [2, 4, 6, 7, 9, 11, 13, 15]


def test_selector_of_a_single_class_gets_all_messages_of_the_class() -> None:
    bench = quorum_bench()
    bench.put(*["blue"] * 20, priority=9)
    bench.put(*["red"] * 20)
    bench.attach("a", "color = 'red'")
    bench.deliver()
    assert bench.got["a"] == list(range(21, 41))


def test_browser_of_a_quorum_queue_sees_both_classes_once() -> None:
    bench = quorum_bench()
    bench.put("red", "red")
    bench.attach("b", browses=True)
    bench.deliver()
    bench.put("red", priority=9)
    bench.put("red")
    bench.deliver()
    assert sorted(bench.got["b"]) == [1, 2, 3, 4]
    assert len(lines_of(bench.queue.ready_queue)) == 2


def test_basic_get_returns_urgent_messages_first_while_the_rest_are_requeued() -> None:
    bench = Bench()
    bench.put(0, 0, 9)
    other = Session()
    for _ in range(2):
        assert other.get(bench.queue, False, 100.0) is not None
    other.unsettled.settle(1, 2, Outcome.RELEASED, 100.0)
    assert bench.take(3) == [3, 1, 2]


def quorum_bench() -> SelectingBench:
    """Return a bench whose queue is of type quorum."""
    bench = SelectingBench()
    bench.queue = bench.vhost.declare_queue("o", dict(QUORUM), True, False, None, None)
    return bench


def test_dead_letter_of_an_urgent_message_is_urgent() -> None:
    bench = Bench(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    dead = bench.house.vhost.declare_queue("dead", dict(QUORUM), True, False, None, None)
    dead.enqueue(Envelope("", "dead"), b"old", 300, 100.0)
    bench.put(9)
    assert bench.take(1, no_ack=False) == [1]
    bench.house.session.unsettled.settle(1, 1, Outcome.REJECTED, 100.0)
    bench.house.step()
    assert dead.messages == 2
    following = dead.ready_queue.next()
    assert following is not None
    assert int(following.envelope.priority) == 9
