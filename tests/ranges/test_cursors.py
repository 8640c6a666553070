"""Repeatable reads of cursors: plans, ranges, settling, and removal from the queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.message import Envelope, Message
from penstock.core.queue.cursor_state import SETTLED_A_UNIT
from penstock.core.queue.expiry import expire
from penstock.core.queue.indexed_ready_queue import CHUNK, REACH_WORK
from penstock.errors import Fenced, NotFound, PreconditionFailed, ResourceError, ResourceLocked
from penstock.flow.work import AT_ONCE, UNITS_A_TURN, WorkMeter
from penstock.ranges.cursors import POSITIONS_MAX, Cursor
from tests.profiles import examples
from tests.support.attached_cursors import Desk, sequences
from tests.support.full_queue import CHARGE, MANY, FullQueue
from tests.support.line_counts import lines_of

FOR_EVER = 1 << 62


def test_plan_has_as_many_as_rows_bytes_and_end_allow_but_at_least_a_message() -> None:
    desk = Desk(10)
    cursor = desk.attach()
    assert cursor.plan("q", 0, FOR_EVER, FOR_EVER, FOR_EVER) == (10, 10, 100)
    assert cursor.plan("q", 0, 4, FOR_EVER, FOR_EVER) == (4, 4, 40)
    assert cursor.plan("q", 0, FOR_EVER, 35, FOR_EVER) == (3, 3, 30)
    assert cursor.plan("q", 0, FOR_EVER, FOR_EVER, 6) == (6, 6, 60)
    assert cursor.plan("q", 6, FOR_EVER, 1, FOR_EVER) == (7, 1, 10)
    assert cursor.plan("q", 10, FOR_EVER, FOR_EVER, FOR_EVER) == (10, 0, 0)


def test_range_can_be_read_again_and_excludes_the_lower_end() -> None:
    desk = Desk(10)
    cursor = desk.attach()
    assert sequences(cursor, 3, 6) == [4, 5, 6]
    assert sequences(cursor, 3, 6) == [4, 5, 6]
    assert sequences(cursor, 3, 6, rows=2) == [4, 5]
    assert sequences(cursor, 3, 6, size=1) == [4]
    assert sequences(cursor, 6, 6) == []


def test_unsettled_messages_count_in_the_depth_and_settling_opens_the_gate() -> None:
    desk = Desk(capacity_messages=10, stop_messages=8, resume_messages=5)
    cursor = desk.attach()
    desk.put(9)
    cursor.plan("q", 0, FOR_EVER, FOR_EVER, FOR_EVER)
    sequences(cursor, 0, 9)
    assert (desk.queue.messages, desk.queue.gate.open) == (9, False)
    assert cursor.settle("q", 4, 1.0) == 4
    assert (desk.queue.messages, desk.queue.bytes, desk.queue.gate.open) == (5, 50, True)
    assert cursor.settle("q", 2, 1.0) == 4, "settling is monotone"
    assert cursor.settle("q", 9, 1.0) == 9
    assert (desk.queue.messages, desk.queue.bytes) == (0, 0)


def test_settled_messages_cannot_be_planned_or_read_again() -> None:
    desk = Desk(5)
    cursor = desk.attach()
    cursor.settle("q", 3, 0.0)
    with pytest.raises(PreconditionFailed, match="up to 3; the messages 2 to 3 are gone"):
        cursor.plan("q", 1, 1, 1, FOR_EVER)
    with pytest.raises(PreconditionFailed, match=r"the range \(1, 5\] cannot be read again"):
        cursor.read("q", 1, 5, 1, 1)
    with pytest.raises(PreconditionFailed, match="ends at 5; cursor 'c' cannot settle 6"):
        cursor.settle("q", 6, 0.0)


def test_message_leaves_when_the_slowest_cursor_has_settled() -> None:
    desk = Desk(10)
    fast, slow = desk.attach("fast"), desk.attach("slow")
    fast.settle("q", 10, 0.0)
    assert desk.queue.messages == 10
    slow.settle("q", 4, 0.0)
    assert desk.queue.messages == 6
    slow.delete(0.0)
    assert desk.queue.messages == 0, "what only the deleted cursor still wanted is not kept"


def test_attach_fences_the_earlier_holder_and_keeps_the_initial_offset() -> None:
    desk = Desk(5)
    cursor = desk.attach(starting=2)
    token = cursor.token
    cursor.check(token, 0.0)
    assert desk.queue.messages == 3, "what is before the initial offset is nobody's"
    assert not cursor.attach([desk.queue], {"q": "latest"}, 0.0)
    assert cursor.positions["q"].initial == 2
    with pytest.raises(Fenced, match="taken over by a newer attach"):
        cursor.check(token, 0.0)
    cursor.check(cursor.token, 0.0)


def test_start_positions_earliest_latest_and_a_sequence_are_resolved() -> None:
    desk = Desk(5)
    keeper = desk.attach("keeper")
    keeper.settle("q", 2, 0.0)
    assert desk.attach("a").positions["q"].initial == 2
    assert desk.attach("b", "latest").positions["q"].initial == 5
    assert desk.attach("c", 3).positions["q"].initial == 3
    for wrong in (1, 6):
        with pytest.raises(PreconditionFailed, match="has the offsets 2 to 5"):
            desk.attach("d", wrong)


class Grown(Desk):
    """A desk with three queues of five messages each."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = {"q": self.queue}
        for name in ("r", "s"):
            self.queues[name] = self.vhost.declare_queue(name, {}, False, False, None, None)
        for name, queue in self.queues.items():
            for _ in range(5):
                queue.enqueue(Envelope("", name), b"", 10, 0.0)
        self.cursor = Cursor("/", "c")

    def subscribe(self, *names: str, starting: int | str = "earliest", holder: bool = False) -> bool:
        queues = [self.queues[name] for name in names]
        return self.cursor.attach(queues, dict.fromkeys(names, starting), 0.0, holder)

    def positions(self) -> dict[str, tuple[int, bool]]:
        return {name: (int(each.settled), each.left) for name, each in self.cursor.positions.items()}


@pytest.fixture
def desk() -> Grown:
    return Grown()


def test_subscription_grows_and_shrinks_and_a_left_queue_keeps_position_and_messages(desk: Grown) -> None:
    assert desk.subscribe("q", "r")
    desk.cursor.settle("q", 3, 0.0)
    assert not desk.subscribe("r", "s", starting="latest"), "a new queue begins at the start, the others go on"
    assert desk.positions() == {"q": (3, True), "r": (0, False), "s": (5, False)}
    assert desk.queues["q"].messages == 2
    with pytest.raises(ResourceLocked, match="read by cursor 'c'"):
        desk.broker.consume(Session(), Consumer("t", Session(), desk.queues["q"], False, True, 0))
    desk.subscribe("q", "r", "s", starting="latest")
    assert desk.positions() == {"q": (3, False), "r": (0, False), "s": (5, False)}, "it is taken up where it stood"
    assert sequences(desk.cursor, 3, 5) == [4, 5]


def test_left_queue_is_released_on_request_alone(desk: Grown) -> None:
    desk.subscribe("q", "r")
    desk.cursor.settle("q", 3, 0.0)
    desk.subscribe("r")
    for names, reason in ((["q", "r"], "still subscribes to queue 'r'"), (["q", "none"], "does not read queue 'none'")):
        with pytest.raises((PreconditionFailed, NotFound), match=reason):
            desk.cursor.release(names, 0.0)
        assert set(desk.positions()) == {"q", "r"}
    desk.cursor.release(["q"], 0.0)
    assert set(desk.positions()) == {"r"}
    assert desk.queues["q"].messages == 2, "what it had not settled stays"
    session = Session()
    desk.broker.consume(session, Consumer("t", session, desk.queues["q"], False, False, 0))


def test_queue_declared_again_is_another_queue_and_the_other_queues_continue(desk: Grown) -> None:
    desk.subscribe("q", "r")
    desk.cursor.settle("q", 3, 0.0)
    desk.cursor.settle("r", 3, 0.0)
    for generation in (1, 2):
        desk.broker.delete_queue(desk.queues["r"])
        desk.queues["r"] = desk.vhost.declare_queue("r", {}, False, False, None, None)
        desk.subscribe("q", "r")
        assert desk.positions() == {"q": (3, False), "r": (0, False)}
        assert desk.cursor.positions["r"].generation == generation
    assert desk.cursor.positions["q"].generation == 0


def test_deleted_queue_that_a_cursor_left_is_dropped_and_the_successor_is_new(desk: Grown) -> None:
    desk.subscribe("q", "r")
    desk.broker.delete_queue(desk.queues["r"])
    desk.subscribe("q")
    assert set(desk.positions()) == {"q"}
    desk.queues["r"] = desk.vhost.declare_queue("r", {}, False, False, None, None)
    desk.subscribe("q", "r")
    assert desk.cursor.positions["r"].generation == 1


def test_holder_changes_the_subscription_and_keeps_the_token(desk: Grown) -> None:
    desk.subscribe("q")
    token = desk.cursor.token
    desk.subscribe("q", "s", holder=True)
    desk.cursor.check(token, 0.0)
    desk.subscribe("q", "s")
    with pytest.raises(Fenced):
        desk.cursor.check(token, 0.0)


def test_cursor_has_a_limit_of_queues(desk: Grown) -> None:
    desk.subscribe("q", "r")
    position = desk.cursor.positions["q"]
    for number in range(2, POSITIONS_MAX):
        desk.cursor.positions[f"left-{number}"] = position
    with pytest.raises(ResourceError, match=f"1 more would be beyond {POSITIONS_MAX}"):
        desk.subscribe("q", "r", "s")
    assert len(desk.cursor.positions) == POSITIONS_MAX
    desk.broker.delete_queue(desk.queues["r"])
    desk.subscribe("q", "s")
    assert len(desk.cursor.positions) == POSITIONS_MAX, "a position on a deleted queue makes room"
    assert "r" not in desk.cursor.positions


def test_returned_messages_are_read_in_the_old_position() -> None:
    desk = Desk(6)
    session = Session()
    for _ in range(4):
        session.get(desk.queue, False, 0.0)
    session.unsettled.acknowledge(2, False, 0.0)
    session.unsettled.settle_tag(0, True, Outcome.FAILED, 0.0)
    cursor = desk.attach()
    assert sequences(cursor, 0, 6) == [1, 3, 4, 5, 6]
    assert cursor.plan("q", 1, 2, FOR_EVER, FOR_EVER) == (4, 2, 20)


def test_queue_that_drops_is_no_queue_for_a_cursor() -> None:
    with pytest.raises(PreconditionFailed, match="overflow policy drop-head"):
        Desk(x_max_length=5).attach()


def test_queue_that_was_deleted_or_is_not_read_is_not_found() -> None:
    desk = Desk()
    cursor = desk.attach()
    with pytest.raises(NotFound, match="does not read queue 'other'"):
        cursor.plan("other", 0, 1, 1, 1)
    desk.broker.delete_queue(desk.queue)
    with pytest.raises(NotFound, match="was deleted"):
        cursor.plan("q", 0, 1, 1, 1)


@settings(max_examples=examples(300), derandomize=True, database=None)
@given(
    st.sets(st.integers(1, 30)),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 31), st.integers(1, 8), st.integers(1, 80)), max_size=12),
)
def test_plans_and_settles_of_two_cursors_agree_with_a_list(
    gaps: set[int], steps: list[tuple[int, int, int, int]]
) -> None:
    desk = Desk(30)
    session = Session()
    for _ in range(30):
        session.get(desk.queue, False, 0.0)
    for tag in sorted(gaps):
        session.unsettled.acknowledge(tag, False, 0.0)
    session.unsettled.settle_tag(0, True, Outcome.FAILED, 0.0)
    left = [sequence for sequence in range(1, 31) if sequence not in gaps]
    cursors = [desk.attach("a"), desk.attach("b")]
    first = left[0] - 1 if left else 30
    settled = [first, first]
    for which, at, rows, size in steps:
        cursor, start = cursors[which], max(at, settled[which])
        expected = [sequence for sequence in left if sequence > start][: min(rows, max(size // 10, 1))]
        end = expected[-1] if expected else start
        assert cursor.plan("q", start, rows, size, FOR_EVER) == (end, len(expected), 10 * len(expected))
        assert sequences(cursor, start, end) == expected
        if end <= 30:
            settled[which] = max(settled[which], end)
            cursor.settle("q", end, 0.0)
        assert desk.queue.messages == len([sequence for sequence in left if sequence > min(settled)])


def test_messages_settled_by_a_cursor_leave_in_slices() -> None:
    count = 2 * UNITS_A_TURN * SETTLED_A_UNIT
    house = FullQueue(count)
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


def test_consumer_after_a_cursor_gets_no_settled_message() -> None:
    house = FullQueue()
    cursor = Cursor("/", "c")
    cursor.attach([house.q], {"q": "earliest"}, house.broker.now)
    cursor.settle("q", MANY - 5, house.broker.now)
    cursor.delete(house.broker.now)
    with pytest.raises(NotFound):
        cursor.position("q")
    assert house.consumed() == list(range(MANY - 5, MANY))
    assert house.turns() <= 1


class CountingDeque(deque[Message]):
    """The messages that are not in the index, with a count of those that were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[Message]:
        for message in super().__iter__():
            self.looked_at += 1
            yield message

    def popleft(self) -> Message:
        self.looked_at += 1
        return super().popleft()


@pytest.mark.parametrize("gaps", [False, True])
def test_work_of_a_plan_and_a_range_does_not_grow_with_the_lag(gaps: bool) -> None:
    work: list[tuple[int, int]] = []
    for count in (20 * CHUNK, 200 * CHUNK):
        desk = Desk()
        line = CountingDeque()
        desk.queue.ready_queue.ready = line
        desk.put(count)
        if gaps:
            kept = [message for message in line if message.sequence % 3 or message.sequence == count]
            line.clear()
            line.extend(kept)
        desk.attach("lags")
        tails = desk.attach("tails")
        assert tails.plan("q", 0, FOR_EVER, FOR_EVER, FOR_EVER)[0] == count
        line.looked_at = 0
        steps = lines_of(
            lambda cursor=tails, count=count: (  # type: ignore[misc]
                cursor.plan("q", count - 10, 100, FOR_EVER, FOR_EVER),
                cursor.plan("q", count, 100, FOR_EVER, FOR_EVER),
                cursor.read("q", count - 10, count, 100, FOR_EVER),
                cursor.read("q", count // 2, count // 2 + 4, 100, FOR_EVER),
            )
        )
        work.append((steps, line.looked_at))
    (few_steps, few_looked_at), (steps, looked_at) = work
    assert looked_at == few_looked_at == 0
    assert steps - few_steps <= 4 * 4 * 6, "ten times as many messages: four more bisections in each of four searches"


def test_plan_of_very_many_messages_looks_at_chunks() -> None:
    desk = Desk(100 * CHUNK)
    cursor = desk.attach()
    whole = (100 * CHUNK, 100 * CHUNK, 1000 * CHUNK)
    assert cursor.plan("q", 0, FOR_EVER, FOR_EVER, FOR_EVER) == whole
    steps = lines_of(lambda: cursor.plan("q", 0, FOR_EVER, FOR_EVER, FOR_EVER))
    assert steps <= 100 * 30
    assert cursor.plan("q", 7, 3 * CHUNK, FOR_EVER, FOR_EVER) == (7 + 3 * CHUNK, 3 * CHUNK, 30 * CHUNK)
    assert cursor.plan("q", 7, FOR_EVER, 30 * CHUNK + 5, FOR_EVER) == (7 + 3 * CHUNK, 3 * CHUNK, 30 * CHUNK)
    assert cursor.plan("q", 7, FOR_EVER, FOR_EVER, 5 * CHUNK + 1) == (5 * CHUNK + 1, 5 * CHUNK - 6, 50 * CHUNK - 60)


def test_message_enters_the_index_once_and_only_if_read() -> None:
    desk = Desk()
    line = CountingDeque()
    desk.queue.ready_queue.ready = line
    desk.put(10 * CHUNK)
    cursor = desk.attach()
    assert line.looked_at == 0
    cursor.plan("q", 0, 2 * CHUNK, FOR_EVER, FOR_EVER)
    assert line.looked_at == 2 * CHUNK
    for _ in range(2):
        cursor.plan("q", CHUNK, FOR_EVER, FOR_EVER, FOR_EVER)
        sequences(cursor, 0, 10 * CHUNK)
    assert line.looked_at == 10 * CHUNK


def test_reach_stops_at_the_share_of_work_and_goes_on_there() -> None:
    desk = Desk(10 * CHUNK)
    cursor = desk.attach()
    work = WorkMeter()
    work.limit = 4 * REACH_WORK
    assert not cursor.reach("q", 0, FOR_EVER, FOR_EVER, work)
    assert work.done == 4 * REACH_WORK
    work.limit = FOR_EVER
    assert cursor.reach("q", 0, FOR_EVER, FOR_EVER, work)
    assert work.done <= 10 * REACH_WORK
    done = int(work.done)
    assert cursor.reach("q", 0, FOR_EVER, FOR_EVER, work)
    assert work.done == done
    assert cursor.reach("q", 10 * CHUNK, FOR_EVER, FOR_EVER, work)


def test_message_with_an_own_time_to_live_settled_by_a_cursor_never_expires() -> None:
    desk = Desk()
    for _ in range(3):
        desk.queue.enqueue(Envelope("", "q", ttl_s=5.0), b"", 10, 0.0)
    cursor = desk.attach()
    cursor.settle("q", 2, 0.0)
    cursor.delete(0.0)
    assert desk.queue.messages == 1
    assert expire(desk.queue, 9.0, 9.0)
    assert (desk.queue.messages, desk.queue.bytes, desk.queue.counters.expired) == (0, 0, 1)
