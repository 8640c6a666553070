"""Blocks of publishes in the core: the same messages as single publishes, exact depths, marks, and turns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.publish.producer import Producer
from penstock.core.routing.route import Route
from penstock.errors import BrokerError, Fenced
from penstock.flow.work import UNITS_A_TURN
from penstock.ranges.held_block import BlockLine, BlockMark, HeldBlock, RowSource
from tests.profiles import examples
from tests.support.broker_fixture import House, told
from tests.support.topology import resolve


class Charges(RowSource):
    """Rows with these charges, each to a queue of its own choice."""

    def __init__(self, house: House, rows: list[tuple[str, int]]) -> None:
        self._rows = rows
        self._routes = {}
        for name, _ in rows:
            route = resolve(house.vhost, "", name)
            self._routes[name] = route
        super().__init__(len(rows), house.vhost.route("", "", False))
        self.loads = 0

    def load(self, row: int) -> None:
        name, charge = self._rows[row]
        if charge == 0:
            raise Fenced("no message")
        self.loads += 1
        self.route = self._routes[name]
        self.content = b"%d" % row
        self.charge = charge


class Recorded(BlockMark):
    """A mark that records what it is told."""

    def __init__(self, first: int = 0, error: BrokerError | None = None) -> None:
        self.first = first
        self.error = error
        self.ends: list[int] = []

    def first_to_take(self, row: int) -> int:
        if self.error is not None:
            raise self.error
        return max(row, self.first)

    def advance(self, end: int, stored: bool) -> None:
        self.ends.append(int(end))


class Lane:
    """A producer with its line of blocks."""

    def __init__(self, house: House, name: str = "blocks") -> None:
        self.house = house
        self.producer: Producer = house.producer(name)
        self.line = BlockLine(self.producer)

    def publish(self, rows: list[tuple[str, int]], mark: BlockMark | None = None) -> HeldBlock:
        source = Charges(self.house, rows)
        block = HeldBlock(self.line, source) if mark is None else HeldBlock(self.line, source, mark)
        self.line.add(block)
        self.house.broker.run(1000)
        return block


def contents(house: House, queue: str) -> list[bytes]:
    return [message.content for message in house.vhost.queues[queue].ready_queue.messages()]


def test_rows_are_taken_in_order_and_confirmed_once() -> None:
    house = House("a", "b")
    lane = Lane(house)
    block = lane.publish([("a", 10), ("b", 10), ("a", 10)])
    assert block.over
    assert (contents(house, "a"), contents(house, "b")) == ([b"0", b"2"], [b"1"])
    assert told(lane.producer) == [(1, 1, True)]


def test_rows_count_as_arrivals_of_the_producer_by_both_paths() -> None:
    house = House("a", capacity_messages=3)
    lane = Lane(house)
    lane.publish([("a", 10), ("a", 20), ("a", 30), ("a", 40)])
    house.take("a")
    assert (int(lane.producer.accepted_messages), int(lane.producer.accepted_bytes)) == (4, 100)
    assert house.vhost.queues["a"].counters.next_sample > 1


def test_bytes_of_a_finished_block_are_released_while_the_confirm_is_withheld() -> None:
    house = House("a", capacity_messages=9, stop_messages=2, resume_messages=1)
    lane = Lane(house)
    block = lane.publish([("a", 10)] * 3)
    assert block.over
    assert told(lane.producer) == []
    assert not isinstance(block.source, Charges)


def test_slice_ends_at_the_share_of_work() -> None:
    house = House("a")
    lane = Lane(house)
    block = HeldBlock(lane.line, Charges(house, [("a", 10)] * 1000))
    lane.line.blocks.append(block)
    assert 100 <= lane.line.work(100, house.broker.now) <= 110
    assert 95 <= block.row <= 100
    assert not block.over


def house_with_fanout(queues: int) -> tuple[House, Route]:
    house = House()
    for number in range(queues):
        house.queue(f"q{number}")
        house.vhost.bind("amq.fanout", house.vhost.queue(f"q{number}"), None, "", {})
    route = resolve(house.vhost, "amq.fanout")
    return house, route


class Fanned(RowSource):
    """Rows of 10 bytes to the same queues."""

    def load(self, row: int) -> None:
        self.charge = 10


def test_work_of_a_block_is_rows_times_queues_in_each_turn() -> None:
    house, route = house_with_fanout(500)
    lane = Lane(house)
    block = HeldBlock(lane.line, Fanned(100, route))
    lane.line.add(block)
    turns = 0
    while not block.over:
        row, done = block.row, house.broker.work.done
        house.broker.run(1000)
        assert 500 * (block.row - row) <= house.broker.work.done - done <= UNITS_A_TURN + 600
        turns += 1
    assert turns == 13
    assert house.depth("q499") == 100


def test_work_of_waiting_publishes_is_messages_times_queues_in_each_turn() -> None:
    house, route = house_with_fanout(500)
    house.set("queue", "q0", capacity_messages=1, stop_messages=1, resume_messages=0)
    producer = house.producer("waiting")
    for _ in range(40):
        producer.publish(route, b"x", 10)
    assert house.depth("q0") == 1
    house.set("queue", "q0", capacity_messages=100, stop_messages=90, resume_messages=80)
    while house.broker.turns.pending or house.broker.pending():
        depth, done = house.depth("q0"), house.broker.work.done
        house.broker.run(500)
        assert house.broker.work.done - done >= 500 * (house.depth("q0") - depth)
        assert house.depth("q0") - depth <= 9
    assert house.depth("q0") == 40


def test_mark_records_rows_in_the_turn_of_their_entry() -> None:
    house = House("a", capacity_messages=3, stop_messages=3, resume_messages=2)
    lane = Lane(house)
    mark = Recorded()
    block = lane.publish([("a", 10)] * 5, mark)
    assert (mark.ends[-1], int(block.row)) == (3, 3)
    house.take("a")
    assert (mark.ends[-1], int(block.row)) == (4, 4)
    house.take("a")
    assert (mark.ends[-1], block.over) == (5, True)


def test_rows_that_a_mark_has_already_are_left_out() -> None:
    house = House("a")
    block = Lane(house).publish([("a", 10)] * 5, Recorded(3))
    assert block.over
    assert contents(house, "a") == [b"3", b"4"]
    assert Lane(house).publish([("a", 10)] * 5, Recorded(9)).over
    assert contents(house, "a") == [b"3", b"4"]


def test_mark_that_fences_a_block_ends_a_waiting_block_too() -> None:
    house = House("a", capacity_messages=1)
    lane = Lane(house)
    mark = Recorded()
    block = lane.publish([("a", 10)] * 3, mark)
    mark.error = Fenced("a newer attempt has begun")
    house.take("a")
    assert block.over
    assert (int(block.row), block.code) == (1, Fenced.code)
    assert "newer attempt" in block.refusal.describe()
    assert contents(house, "a") == []
    assert told(lane.producer) == [(1, 1, True)]


def test_row_that_cannot_be_loaded_ends_the_block_also_behind_a_waiting_row() -> None:
    house = House("a", capacity_messages=1)
    lane = Lane(house)
    block = lane.publish([("a", 10), ("a", 10), ("a", 0), ("a", 10)])
    house.take("a")
    assert block.over
    assert int(block.row) == 2
    assert contents(house, "a") == [b"1"]


def test_queue_deleted_while_the_block_waits_ends_the_block() -> None:
    house = House("a", capacity_messages=1)
    lane = Lane(house)
    block = lane.publish([("a", 10)] * 3)
    house.broker.delete_queue(house.vhost.queues["a"])
    house.broker.run(1000)
    assert block.over
    assert block.refusal.cause == "deleted"


def test_held_block_is_charged_with_the_next_row_and_takes_hold_room_for_that_row() -> None:
    house = House("a", capacity_bytes=100)
    lane = Lane(house)
    lane.publish([("a", 60), ("a", 50), ("a", 70)])
    assert (int(lane.producer.hold_budget.bytes), int(lane.producer.hold_budget.messages)) == (50, 1)
    house.take("a")
    assert (int(lane.producer.hold_budget.bytes), int(lane.producer.hold_budget.messages)) == (70, 1)
    house.take("a")
    assert (int(lane.producer.hold_budget.bytes), int(lane.producer.hold_budget.messages)) == (0, 0)


def test_turns_are_shared_with_a_producer_of_single_messages() -> None:
    house = House("a", capacity_messages=1)
    lane = Lane(house)
    lane.publish([("a", 10)] * 100)
    house.published("single", "a", 10, count=100)
    found: list[bytes] = []
    for _ in range(100):
        found += contents(house, "a")
        house.take("a")
    assert 45 <= found.count(b"x") <= 55


@settings(max_examples=examples(200))
@given(
    capacity=st.integers(1, 12),
    resume=st.integers(0, 11),
    steps=st.lists(
        st.one_of(
            st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 40)), min_size=1, max_size=12),
            st.sampled_from(["take a", "take b", "single", "later"]),
        ),
        max_size=40,
    ),
)
def test_depth_never_exceeds_the_capacity_and_no_row_is_lost_doubled_or_overtaken(
    capacity: int, resume: int, steps: list[object]
) -> None:
    house = House()
    for name in "ab":
        house.queue(name, capacity_messages=capacity, resume_messages=min(resume, capacity - 1) or 1, hold_deadline=30)
    lane, single = Lane(house), house.producer("single")
    blocks: list[HeldBlock] = []
    taken = {"a": 0, "b": 0}

    def depth() -> None:
        for queue in house.vhost.queues.values():
            assert queue.messages <= capacity

    for step in steps:
        if isinstance(step, list):
            blocks.append(lane.publish(step))
        elif step == "single":
            house.publish(single, "a", 10)
        elif step == "later":
            house.later(20)
        elif house.take(str(step)[-1]):
            taken[str(step)[-1]] += 1
        depth()
    for _ in range(1000):
        if all(block.over for block in blocks) and not single.outbox:
            break
        for name in "ab":
            taken[name] += house.take(name)
        depth()
    assert all(block.over for block in blocks)
    rows = sum(int(block.row) for block in blocks)
    singles = sum(last - first + 1 for first, last, confirmed in told(single) if confirmed)
    assert sum(taken.values()) + sum(house.depth(name) for name in "ab") <= rows + steps.count("single")
    assert sum(taken.values()) + sum(house.depth(name) for name in "ab") >= rows
    house.later(31)
    assert sum(last - first + 1 for first, last, _ in told(lane.producer)) == len(blocks)
    assert int(lane.producer.hold_budget.bytes) == 0
    assert singles <= steps.count("single")


@pytest.mark.parametrize("rows", [1, 2, 50])
def test_block_of_transient_messages_equals_single_publishes(rows: int) -> None:
    one, other = House(), House()
    for house in (one, other):
        house.queue("a", capacity_messages=20)
    Lane(one).publish([("a", 10)] * rows)
    single = other.producer("single")
    for _ in range(rows):
        other.publish(single, "a", 10)
    assert one.depth("a") == other.depth("a")
    assert one.vhost.queues["a"].gate.open == other.vhost.queues["a"].gate.open
    assert int(one.vhost.queues["a"].bytes) == int(other.vhost.queues["a"].bytes)
