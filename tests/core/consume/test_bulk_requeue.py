"""Deliveries requeued in slices: in order, and before younger messages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.consume.bulk_requeue import SORTED_A_UNIT, BulkRequeue
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session, settle_in_slices
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.errors import ResourceLocked
from penstock.flow.work import UNITS_A_TURN
from penstock.ranges.cursors import Cursor
from tests.support.broker_fixture import House

pytestmark = pytest.mark.once

MANY = 20_000


CHARGE = 300


class Ward(House):
    """A house whose messages are numbered in each queue, from 0."""

    def __init__(self, *names: str, **arguments: object) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        for name in names:
            self.counts[name] = 0
            self.queue(name, **arguments)

    def of(self, name: str) -> Queue:
        return self.vhost.queues[name]

    def fill(self, name: str, count: int) -> None:
        queue = self.of(name)
        for number in range(self.counts[name], self.counts[name] + count):
            queue.enqueue(Envelope("", name), b"%d" % number, CHARGE, self.broker.now)
        self.counts[name] += count
        self.broker.schedule_delivery(queue)

    def consume(self, name: str, session: Session | None = None, window: int = 0, no_ack: bool = False) -> Session:
        session = session or Session()
        tag = f"{name}.{session.unsettled.next_number}.{len(session.consumers)}"
        self.broker.consume(session, Consumer(tag, session, self.of(name), no_ack, False, window))
        return session

    def deliveries(self) -> Iterator[tuple[str, list[int]]]:
        """What is delivered now: the queue and the numbers of each batch."""
        while (batch := self.broker.next_batch()) is not None:
            yield batch.consumer.queue.name, numbers(batch)

    def with_all(self, *names: str) -> Session:
        """A session that has everything of these queues, their batches in turn."""
        session = Session()
        for name in names:
            self.consume(name, session)
        for _ in self.deliveries():
            pass
        return session

    def turn(self) -> int:
        """Make a turn; returns how much work it was."""
        before = self.broker.work.done
        self.broker.run(1000)
        return int(self.broker.work.done - before)


def numbers(batch: Batch) -> list[int]:
    return [int(message.content) for message in batch.messages if message is not None]


def pending(queue: Queue) -> tuple[int, int, int]:
    return int(queue.unacked_messages), int(queue.coming_back), len(queue.returning or ())


@pytest.fixture
def ward() -> Ward:
    return Ward("q")


def test_consumer_gets_messages_of_an_ended_session_before_younger_messages(ward: Ward) -> None:
    ward.fill("q", MANY)
    gone = ward.with_all("q")
    ward.consume("q")
    ward.fill("q", 5)
    ward.broker.end_session(gone)
    got: list[int] = []
    turns = 0
    while len(got) < MANY + 5:
        got += [number for _, batch in ward.deliveries() for number in batch]
        assert ward.turn() <= UNITS_A_TURN + 1000
        turns += 1
    assert turns > MANY // (UNITS_A_TURN + 256)
    assert got == [*range(MANY + 5)]


def test_interleaved_queues_are_delivered_in_order_once_the_messages_are_back() -> None:
    names = [f"q{number}" for number in range(7)]
    ward = Ward(*names)
    for name in names:
        ward.fill(name, 3000)
    gone = ward.with_all(*names)
    for name in names:
        ward.fill(name, 3)
    stays = Session()
    for name in names:
        ward.consume(name, stays)
    ward.broker.end_session(gone)
    got: dict[str, list[int]] = {name: [] for name in names}
    begun: list[int] = []
    while ward.broker.pending() or not begun:
        ward.turn()
        for name, batch in ward.deliveries():
            got[name] += batch
        begun.append(sum(len(each) > 0 for each in got.values()))
    assert got == {name: [*range(3003)] for name in names}
    assert len(set(begun)) >= 4, f"the first does not wait for the last: {begun}"


def test_queue_without_returning_messages_is_not_held_up() -> None:
    ward = Ward("q", "other", "settled")
    ward.fill("q", MANY)
    ward.fill("settled", 10)
    gone = ward.with_all("q", "other", "settled")
    gone.unsettled.acknowledge(MANY + 10, False, ward.broker.now)
    ward.fill("other", 3)
    ward.fill("settled", 3)
    for tag, queue, _ in gone.unsettled.deliveries(1, gone.unsettled.next_number - 1):
        if queue.name == "settled":
            gone.unsettled.acknowledge(tag, False, ward.broker.now)
    ward.broker.end_session(gone)
    for name in ("q", "other", "settled"):
        ward.consume(name)
    assert dict(ward.deliveries()) == {"other": [0, 1, 2], "settled": [10, 11, 12]}
    assert ward.of("q").returning


def test_sessions_that_end_in_turn_return_the_messages_of_a_queue_in_order(ward: Ward) -> None:
    first, second = ward.consume("q", window=MANY // 2), ward.consume("q", window=MANY // 2)
    ward.fill("q", MANY)
    assert {len(batch) for _, batch in ward.deliveries()} <= {256, 16}
    third = ward.consume("q")
    ward.fill("q", 5)
    # The third has the youngest five and keeps them.
    assert [number for _, batch in ward.deliveries() for number in batch] == [*range(MANY, MANY + 5)]
    ward.broker.end_session(first)
    ward.turn()
    ward.broker.end_session(second)
    assert len(ward.of("q").returning or ()) == 2
    ward.fill("q", 1)
    got: list[int] = []
    while ward.broker.pending() or not got:
        got += [number for _, batch in ward.deliveries() for number in batch]
        ward.turn()
    got += [number for _, batch in ward.deliveries() for number in batch]
    assert got == [*range(MANY), MANY + 5]
    assert third.unsettled.count() == MANY + 6


def test_session_that_ends_during_the_requeue_returns_all_in_order(ward: Ward) -> None:
    ward.fill("q", MANY)
    gone = ward.with_all("q")
    settle_in_slices(ward.broker, gone, 1, MANY // 2, Outcome.FAILED)
    ward.broker.end_session(gone)
    ward.consume("q")
    got: list[int] = []
    while ward.broker.pending() or not got:
        ward.turn()
        got += [number for _, batch in ward.deliveries() for number in batch]
    assert got == [*range(MANY)]


def test_get_returns_the_oldest_message_of_several_ended_sessions(ward: Ward) -> None:
    ends = [ward.consume("q", window=MANY // 4) for _ in range(4)]
    ward.fill("q", MANY)
    assert sum(len(batch) for _, batch in ward.deliveries()) == MANY
    for session in ends:
        ward.broker.end_session(session)
    asks = Session()
    got = []
    for _ in range(MANY):
        batch = asks.get(ward.of("q"), True, ward.broker.now)
        assert batch is not None
        got += numbers(batch)
    assert got == [*range(MANY)]
    assert pending(ward.of("q")) == (0, 0, 0)


def test_get_returns_a_redelivered_message_before_younger_messages_of_other_batches(ward: Ward) -> None:
    ward.fill("q", MANY)
    gone = ward.consume("q", window=MANY)
    assert sum(len(batch) for _, batch in ward.deliveries()) == MANY
    settle_in_slices(ward.broker, gone, 1, 1, Outcome.FAILED)
    assert [*ward.deliveries()] == [("q", [0])]
    ward.broker.end_session(gone)
    batch = Session().get(ward.of("q"), True, ward.broker.now)
    assert batch is not None
    assert numbers(batch) == [0]


def test_get_requeues_only_as_much_as_the_queue_needs() -> None:
    ward = Ward("q", "other")
    ward.fill("q", MANY)
    ward.fill("other", MANY)
    ward.broker.end_session(ward.with_all("q", "other"))
    before = {name: int(ward.of(name).coming_back) for name in ("q", "other")}
    for name in ("q", "other"):
        assert Session().get(ward.of(name), True, ward.broker.now) is not None
    assert all(before[name] - ward.of(name).coming_back <= 256 for name in before)


def test_returning_messages_count_as_unacknowledged_until_requeued(ward: Ward) -> None:
    ward.fill("q", MANY)
    gone = ward.with_all("q")
    queue = ward.of("q")
    ward.broker.end_session(gone)
    left = [int(queue.unacked_messages)]
    while ward.broker.pending():
        assert (queue.unacked_messages, queue.unacked_bytes) == (queue.coming_back, queue.coming_back * CHARGE)
        assert (ward.depth("q"), queue.waiting(), gone.unsettled.count()) == (MANY, MANY, 0)
        ward.turn()
        left.append(int(queue.unacked_messages))
    assert max(before - after for before, after in pairwise(left)) <= UNITS_A_TURN + 256
    assert pending(queue) == (0, 0, 0)
    assert (queue.available(), queue.messages, queue.bytes) == (MANY, MANY, MANY * CHARGE)
    assert (gone.returning, gone.consumers, len(queue.consumers)) == (None, {}, 0)


def test_thousands_of_queues_get_messages_back_in_succession_a_batch_a_step() -> None:
    names = [f"q{number}" for number in range(3000)]
    ward = Ward(*names)
    gone = Session()
    for _ in range(2):
        for name in names:
            ward.fill(name, 1)
            assert gone.get(ward.of(name), False, ward.broker.now) is not None
    before = ward.broker.work.done
    returning = BulkRequeue(ward.broker, gone.unsettled.hand_over())
    assert ward.broker.work.done - before == 2 * len(names) // SORTED_A_UNIT
    assert {pending(ward.of(name)) for name in names} == {(2, 2, 1)}
    for step in range(2 * len(names)):
        assert returning.work(1, ward.broker.now) == 1
        assert ward.of(names[step // 2]).coming_back == 1 - step % 2
    assert {pending(ward.of(name)) for name in names} == {(0, 0, 0)}
    assert not returning.has_more()


@pytest.mark.parametrize("how", ["purge", "delete"])
def test_returning_messages_end_with_the_deleted_queue_and_the_rest_come_back(how: str) -> None:
    ward = Ward("q", "other")
    ward.fill("q", MANY)
    ward.fill("other", MANY)
    gone = ward.with_all("q", "other")
    ward.fill("q", 5)
    ward.broker.end_session(gone)
    ward.turn()
    q, other = ward.of("q"), ward.of("other")
    assert q.returning
    count = q.purge(ward.broker.now) if how == "purge" else ward.broker.delete_queue(q)
    assert count == MANY + 5
    assert (pending(q), q.messages, q.bytes) == ((0, 0, 0), 0, 0)
    while ward.broker.pending():
        ward.turn()
    assert (q.messages, q.available(), q.unacked_messages) == (0, 0, 0)
    assert (other.available(), pending(other)) == (MANY, (0, 0, 0))
    if how == "purge":
        ward.fill("q", 2)
        ward.consume("q")
        assert dict(ward.deliveries()) == {"q": [MANY + 5, MANY + 6]}


def test_messages_of_an_already_deleted_queue_end_with_the_session() -> None:
    ward = Ward("q", "other")
    ward.fill("q", MANY)
    ward.fill("other", 10)
    gone = ward.with_all("q", "other")
    q = ward.of("q")
    ward.broker.delete_queue(q)
    ward.broker.end_session(gone)
    while ward.broker.pending():
        ward.turn()
    assert (pending(q), pending(ward.of("other")), ward.of("other").available()) == ((0, 0, 0), (0, 0, 0), 10)


@pytest.mark.parametrize("outcome", [Outcome.RELEASED, Outcome.REJECTED])
def test_deliveries_settled_singly_count_as_work(outcome: Outcome, ward: Ward) -> None:
    ward.fill("q", 100)
    session = ward.with_all("q")
    before = ward.broker.work.done
    for number in range(1, 101):
        settle_in_slices(ward.broker, session, number, number, outcome)
    assert ward.broker.work.done - before >= 100


def test_cursor_waits_until_all_messages_are_back_and_reads_in_order(ward: Ward) -> None:
    ward.fill("q", MANY)
    ward.broker.end_session(ward.with_all("q"))
    cursor = Cursor("/", "c")
    with pytest.raises(ResourceLocked, match="unacknowledged"):
        cursor.attach([ward.of("q")], {"q": "earliest"}, ward.broker.now)
    while ward.broker.pending():
        ward.turn()
    cursor.attach([ward.of("q")], {"q": "earliest"}, ward.broker.now)
    end, count, _ = cursor.plan("q", 0, MANY, 1 << 40, MANY)
    assert (end, count) == (MANY, MANY)
    read = cursor.read("q", 0, MANY, MANY, 1 << 40)
    assert [int(message.content) for message in read] == [*range(MANY)]


def test_session_that_ends_with_a_cursor_delays_no_queue_and_the_range_is_reread() -> None:
    ward = Ward("read", "q")
    ward.fill("read", MANY)
    ward.fill("q", MANY)
    cursor = Cursor("/", "c")
    cursor.attach([ward.of("read")], {"read": "earliest"}, ward.broker.now)
    end, _, _ = cursor.plan("read", 0, 100, 1 << 40, MANY)
    ward.broker.end_session(ward.with_all("q"))
    assert (pending(ward.of("read")), ward.of("q").returning) != ((0, 0, 0), None)
    cursor.attach([ward.of("read")], {"read": "earliest"}, ward.broker.now)
    again = cursor.read("read", 0, end, 1000, 1 << 40)
    assert [int(message.content) for message in again] == [*range(100)]
    while ward.broker.pending():
        ward.turn()
    assert (ward.of("read").waiting(), ward.of("q").waiting()) == (MANY, MANY)


class AtOnce(RuleBasedStateMachine):
    """Sessions that come, take, settle and end; in the model what they had is back the moment they end.

    Whatever is delivered, to a consumer or to a get, is what the model would give: nobody can tell that it takes turns.
    """

    NAMES = ("a", "b", "c")

    @initialize()
    def begin(self) -> None:
        self.ward = Ward(*self.NAMES)
        self.broker = self.ward.broker
        self.ready: dict[str, list[int]] = {name: [] for name in self.NAMES}
        self.sessions: list[Session] = []
        self.out: dict[int, list[tuple[int, str, int]]] = {}
        """What each session has: tag, queue, number."""
        for who in range(3):
            self.publish("a", 40)
            self.consume("a", who, 20)
            self.deliver(9)

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 40), most=st.integers(0, 9))
    def publish(self, name: str, count: int, most: int = 0) -> None:
        """Younger messages come, and some deliveries are made at once."""
        first = self.ward.counts[name]
        self.ward.fill(name, count)
        self.ready[name] += range(first, first + count)
        self.deliver(most)

    @rule(name=st.sampled_from(NAMES), who=st.integers(0, 2), window=st.integers(1, 9))
    def consume(self, name: str, who: int, window: int) -> None:
        self.ward.consume(name, self.session(who), window)

    @rule(name=st.sampled_from(NAMES), who=st.integers(0, 2), no_ack=st.booleans())
    def get(self, name: str, who: int, no_ack: bool) -> None:
        batch = self.session(who).get(self.ward.of(name), no_ack, self.broker.now)
        assert (batch is None) == (not self.ready[name])
        if batch is not None:
            self.delivered(batch, no_ack)

    @rule(most=st.integers(1, 30))
    def deliver(self, most: int) -> None:
        for _ in range(most):
            batch = self.broker.next_batch()
            if batch is None:
                return
            self.delivered(batch, False)

    @rule(who=st.integers(0, 2), which=st.integers(0, 50), multiple=st.booleans())
    def acknowledge(self, who: int, which: int, multiple: bool) -> None:
        session = self.session(who)
        out = self.out[id(session)]
        if out:
            tag = out[which % len(out)][0]
            session.unsettled.acknowledge(tag, multiple, self.broker.now)
            self.out[id(session)] = [each for each in out if (each[0] > tag if multiple else each[0] != tag)]

    @rule(who=st.integers(0, 2), left=st.integers(0, 30))
    def end(self, who: int, left: int) -> None:
        """A session ends in a turn in which other ends have left so much to do at once."""
        session = self.session(who)
        self.broker.endings._left = left
        self.broker.end_session(session)
        self.sessions.remove(session)
        self.back(self.out.pop(id(session)))

    @rule(who=st.integers(0, 2), which=st.integers(0, 50))
    def give_back(self, who: int, which: int) -> None:
        """Deliveries are given back by a session that goes on, a slice a turn."""
        session = self.session(who)
        out = self.out[id(session)]
        if out:
            tag = out[which % len(out)][0]
            self.broker.turns.chores.add(BulkRequeue(self.broker, session.unsettled.detach(1, tag)))
            self.back([each for each in out if each[0] <= tag])
            self.out[id(session)] = [each for each in out if each[0] > tag]

    @rule(units=st.integers(1, 40))
    def slice(self, units: int) -> None:
        """The first chore in line does a little."""
        for chore in list(self.broker.turns.chores._waiting)[:1]:
            chore.work(units, self.broker.now)

    @rule()
    def turn(self) -> None:
        self.broker.run(1000)

    @rule(name=st.sampled_from(NAMES))
    def purge(self, name: str) -> None:
        assert self.ward.of(name).purge(self.broker.now) == len(self.ready[name])
        self.ready[name] = []

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        """It is deleted and declared again; what consumers had of it counts nowhere any more."""
        queue = self.ward.of(name)
        assert self.broker.delete_queue(queue) == len(self.ready[name])
        self.ready[name] = []
        self.ward.queue(name)
        self.ward.counts[name] += 1000
        for session in self.sessions:
            gone = {tag for tag, of, _ in session.unsettled.deliveries(1, session.unsettled.next_number) if of is queue}
            session_out = self.out[id(session)]
            self.out[id(session)] = [(tag, "" if tag in gone else of, number) for tag, of, number in session_out]

    def session(self, who: int) -> Session:
        while len(self.sessions) <= who:
            session = Session()
            self.sessions.append(session)
            self.out[id(session)] = []
        return self.sessions[who]

    def delivered(self, batch: Batch, no_ack: bool) -> None:
        name = batch.consumer.queue.name
        got = numbers(batch)
        assert got == self.ready[name][: len(got)]
        del self.ready[name][: len(got)]
        if not no_ack:
            tags = range(int(batch.first), int(batch.first) + len(got))
            self.out[id(batch.consumer.session)] += [(tag, name, number) for tag, number in zip(tags, got, strict=True)]

    def back(self, deliveries: list[tuple[int, str, int]]) -> None:
        for _, name, number in deliveries:
            if name:
                self.ready[name] = sorted([*self.ready[name], number])

    @invariant()
    def counts_agree(self) -> None:
        for name in self.NAMES:
            queue = self.ward.of(name)
            out = sum(of == name for each in self.out.values() for _, of, _ in each)
            assert queue.waiting() == len(self.ready[name])
            assert queue.unacked_messages == out + queue.coming_back
            assert (queue.messages, queue.bytes) == (out + len(self.ready[name]), queue.messages * CHARGE)
            assert (queue.coming_back > 0) == bool(queue.returning)

    def teardown(self) -> None:
        while self.broker.pending():
            self.broker.run(1000)
        for name in self.NAMES:
            queue = self.ward.of(name)
            assert (queue.coming_back, queue.returning) == (0, None)
            assert sorted(int(message.content) for message in queue.ready_queue.messages()) == self.ready[name]


TestAtOnce = AtOnce.TestCase
