"""Plans beyond the memory: any limits over any pages agree with a list of all messages."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.ranges import range_plan
from penstock.ranges.cursors import Cursor
from penstock.ranges.range_plan import RangePlan
from tests.profiles import examples
from tests.support.attached_cursors import attached
from tests.support.memory_store import Shelf
from tests.support.paging_broker import PagedHouse, house_with, publish, settled

FOR_EVER = 1 << 62
REST_OF_A_PAGE = [(12, 300, True), (11, 300, False), (3, 700, False), (8, 100, False), (8, 300, True)]
"""Pages of which the second one has transient messages only: they are gone after a restart."""


class DrivenPlan:
    """A plan, driven through the disk."""

    def __init__(self, house: PagedHouse, cursor: Cursor) -> None:
        self.house = house
        self.cursor = cursor
        self.done = False
        self.reads = 0
        self.plan: RangePlan | None = None

    def run(self, start: int, rows: int = FOR_EVER, size: int = FOR_EVER, upto: int = FOR_EVER) -> tuple[int, int, int]:
        plan = RangePlan(self.cursor.begin_plan("q", start), start, rows, size, upto, self.on_read)
        self.plan = plan
        self.done = plan.go_on()
        while not self.done:
            self.house.ask()
            assert self.house.reads, "it waits for nothing"
            self.house.load()
        return int(plan.end), int(plan.messages), int(plan.bytes)

    def on_read(self) -> None:
        self.reads += 1
        self.done = self.plan.go_on()


def test_plan_goes_beyond_the_memory_and_leaves_the_memory_unchanged() -> None:
    house = settled(2_000, capacity_messages=20)
    plan = DrivenPlan(house, attached(house.queues["q"]))
    assert plan.run(0) == (2_000, 2_000, 600_000)
    assert plan.reads <= 2, "heads of pages are enough"
    assert plan.run(0, rows=1_000) == (1_000, 1_000, 300_000)
    assert plan.run(1_005, rows=500) == (1_505, 500, 150_000)
    assert plan.run(7, size=900 * 300 + 299) == (907, 900, 270_000)
    assert plan.run(1_990, upto=1_995) == (1_995, 5, 1_500)
    assert plan.run(2_000) == (2_000, 0, 0)
    assert house.queues["q"].messages == 20


def test_plan_ends_before_a_page_in_writing() -> None:
    house = settled(10)
    publish(house, 11, 14)
    plan = DrivenPlan(house, attached(house.queues["q"]))
    assert plan.run(0) == (10, 10, 3_000)
    assert plan.plan.waits
    house.write()
    assert plan.run(10) == (14, 4, 1_200)
    assert not plan.plan.waits


def test_page_of_transient_messages_is_read_for_the_number_and_gone_after_a_restart() -> None:
    house = house_with(messages=4)
    publish(house, 5, 7, persistent=False)
    publish(house, 8, 12)
    house.settle()
    assert DrivenPlan(house, attached(house.queues["q"])).run(0) == (12, 12, 3_600)
    again = house_with(house.shelf)
    again.settle()
    assert DrivenPlan(again, attached(again.queues["q"])).run(0) == (12, 9, 2_700)
    assert DrivenPlan(again, attached(again.queues["q"], "d")).run(0, rows=6) == (9, 6, 1_800)


def test_plan_over_more_pages_than_heads_of_a_single_read_is_complete() -> None:
    house = house_with(capacity_messages=2)
    count = 3 * range_plan.HEADS
    for number in range(1, count + 1):
        publish(house, number, number)
        house.write()
    house.settle()
    assert DrivenPlan(house, attached(house.queues["q"])).run(0) == (count, count, count * 300)


@settings(max_examples=examples(400), derandomize=True, database=None, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from([100, 300, 700]), st.booleans()), min_size=1, max_size=12),
    st.booleans(),
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 60), st.integers(1, 20_000), st.integers(0, 80), st.booleans()),
        min_size=1,
        max_size=8,
    ),
)
@example(
    REST_OF_A_PAGE,
    True,
    [(43, 28, 426, 28, True), (11, 25, 582, 2, True), (19, 56, 691, 25, True), (9, 7, 6302, 25, False)],
)
def test_plan_over_pages_agrees_with_a_list(
    parts: list[tuple[int, int, bool]], restart: bool, plans: list[tuple[int, int, int, int, bool]]
) -> None:
    house = house_with()
    messages: list[tuple[int, int]] = []
    for count, charge, persistent in parts:
        first = len(messages) + 1
        publish(house, first, first + count - 1, charge, persistent)
        messages += [(sequence, charge if persistent or not restart else 0) for sequence in range(first, first + count)]
        house.write()
    house.settle()
    if restart:
        house = house_with(house.shelf)
        house.settle()
    there = [(sequence, charge) for sequence, charge in messages if charge]
    cursor, lags = attached(house.queues["q"]), attached(house.queues["q"], "lags")
    lowest = int(cursor.positions["q"].initial)
    for at, rows, size, upto, moves in plans:
        start = max(at, lowest)
        plan = DrivenPlan(house, cursor)
        if moves:
            step = min(int(lags.positions["q"].settled) + 3, int(house.queues["q"].tail))
            lags.settle("q", step, house.now)  # The queue reads pages while the plan does.
            cursor.settle("q", min(step, start), house.now)
            lowest = int(cursor.positions["q"].settled)
        expected, total = [], 0
        for sequence, charge in there:
            if start < sequence <= upto and len(expected) < rows and (not expected or total + charge <= size):
                expected.append(sequence)
                total += charge
            elif sequence > start:
                break
        end, count, bytes_ = plan.run(start, rows, size, upto)
        assert (count, bytes_) == (len(expected), total)
        following = [sequence for sequence, _ in there if sequence > (expected[-1] if expected else start)]
        assert (expected[-1] if expected else start) <= end < (following[0] if following else FOR_EVER)
        house.check()


def test_pages_that_are_settled_completely_leave_unread() -> None:
    house = settled(3_000, Shelf(), capacity_messages=6)
    cursor = attached(house.queues["q"])
    assert DrivenPlan(house, cursor).run(0, rows=2_000)[0] == 2_000
    cursor.settle("q", 2_000, house.now)
    read = 0
    while house.queues["q"].depth_messages() > 1_000:
        house.write()
        house.ask()
        read += len([each for each in house.reads if each.lister is None])
        assert house.reads
        house.load()
    assert read <= 2, "the page into which the position falls, and the one after"
    house.settle()
    assert house.queues["q"].settled == 2_000
    again = house_with(house.shelf)
    again.settle()
    assert again.queues["q"].depth_messages() == 1_000
    other = attached(again.queues["q"])
    other.settle("q", 3_000, again.now)
    again.settle()
    assert again.queues["q"].depth_messages() == 0
    assert not again.shelf.rows


@settings(max_examples=examples(200), derandomize=True, database=None, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "pass", "write", "load", "settle", "settle", "restart"]), st.integers(1, 14)),
        max_size=40,
    )
)
def test_depth_is_the_rest_after_any_settlements(steps: list[tuple[str, int]]) -> None:
    house = house_with()
    there: dict[int, bool] = {}
    """The messages that are left, and whether they survive a restart."""
    cursor = attached(house.queues["q"])
    for step, number in steps:
        if step in ("put", "pass"):
            first = int(house.queues["q"].tail) + 1
            publish(house, first, first + number - 1, persistent=step == "put")
            there |= dict.fromkeys(range(first, first + number), step == "put")
        elif step == "write":
            house.write()
        elif step == "load":
            house.ask()
            if house.reads:
                house.load()
        elif step == "settle":
            cursor.settle("q", min(int(cursor.positions["q"].settled) + number, int(house.queues["q"].tail)), house.now)
            there = {sequence: lasts for sequence, lasts in there.items() if sequence > cursor.positions["q"].settled}
        else:
            settled = int(cursor.positions["q"].settled)
            house.settle()
            house = house_with(house.shelf)
            cursor = attached(house.queues["q"])
            there = {sequence: lasts for sequence, lasts in there.items() if lasts}
            cursor.settle("q", max(int(cursor.positions["q"].settled), min(settled, int(house.queues["q"].tail))), 0.0)
        house.check()
    house.settle()
    queue = house.queues["q"]
    assert (queue.depth_messages(), queue.depth_bytes()) == (len(there), 300 * len(there))
    start = int(cursor.positions["q"].settled)
    assert DrivenPlan(house, cursor).run(start)[1:] == (len(there), 300 * len(there))
    assert queue.storage.has_stored() == len([lasts for lasts in there.values() if lasts])
