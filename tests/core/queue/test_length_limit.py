"""The length limit of a queue: ready messages count, unacknowledged ones do not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.message import Envelope
from penstock.core.publish.producer import Producer
from penstock.core.queue.length_limit import EXTRA_BYTES, EXTRA_MESSAGES, TRIMMED_AT_ONCE
from penstock.core.queue.queue import Queue
from penstock.flow.work import UNITS_A_TURN
from penstock.settings.read import read_settings
from tests.profiles import examples
from tests.support import at_once
from tests.support.broker_fixture import House, told
from tests.support.topology import resolve
from tests.support.transaction_client import Client

CHARGE = 300


class Line(House):
    """A house with the queue `q`, and one producer with confirms."""

    def __init__(self, **arguments: object) -> None:
        super().__init__()
        self.queue("q", **arguments)
        self.q: Queue = self.vhost.queues["q"]
        self.writer: Producer = self.producer("p")

    def put(self, *contents: bytes) -> None:
        route = resolve(self.vhost, "", "q")
        for content in contents:
            self.writer.publish(route, content, CHARGE)

    def consume(self, prefetch: int = 0, no_ack: bool = False) -> None:
        self.broker.consume(self.session, Consumer("c", self.session, self.q, no_ack, False, prefetch))

    def turn(self) -> list[bytes]:
        """One turn of the broker: what the consumers get."""
        self.broker.run(1000)
        got: list[bytes] = []
        while (batch := self.broker.next_batch()) is not None:
            got += [message.content for message in batch.messages if message is not None]
        return got

    def ready(self) -> list[bytes]:
        return [message.content for message in self.q.ready_queue.messages()]

    def get(self) -> bytes:
        batch = self.session.get(self.q, False, self.broker.now)
        assert batch.messages[0] is not None
        return batch.messages[0].content

    def set(self, **given: object) -> None:
        words = read_settings("queue", "q", {name.replace("_", "-"): value for name, value in given.items()})
        at_once.set_settings(self.broker, "queue", "q", words)


@pytest.fixture
def line() -> Line:
    return Line(x_max_length=2)


def test_oldest_ready_message_makes_room_and_the_publish_is_confirmed(line: Line) -> None:
    line.put(b"1", b"2", b"3")
    assert line.ready() == [b"2", b"3"]
    assert told(line.writer) == [(1, 3, True)]
    assert (line.q.counters.dropped, line.depth("q")) == (1, 2)


def test_unacknowledged_messages_do_not_count_to_the_length(line: Line) -> None:
    line.put(b"1", b"2")
    assert [line.get(), line.get()] == [b"1", b"2"]
    line.put(b"3", b"4", b"5")
    assert line.ready() == [b"4", b"5"]
    assert line.depth("q") == 4


def test_length_of_a_refusing_queue_counts_ready_messages_too() -> None:
    line = Line(x_max_length=2, x_overflow="reject-publish")
    line.put(b"1", b"2", b"3")
    assert told(line.writer) == [(3, 3, False), (1, 2, True)]
    line.get()
    line.put(b"4", b"5")
    assert line.ready() == [b"2", b"4"]
    assert told(line.writer) == [(5, 5, False), (4, 4, True)]


def test_capacity_by_penstocks_name_limits_the_whole_depth() -> None:
    line = Line(capacity_messages=2, overflow="drop-head")
    line.put(b"1", b"2")
    assert [line.get(), line.get()] == [b"1", b"2"]
    line.put(b"3")
    assert told(line.writer) == [(3, 3, False), (1, 2, True)]
    assert line.depth("q") == 2


def test_bytes_of_a_length_are_the_bytes_of_ready_bodies() -> None:
    line = Line(x_max_length_bytes=10)
    line.put(b"a" * 6, b"b" * 4)
    assert len(line.ready()) == 2
    line.put(b"c")
    assert line.ready() == [b"b" * 4, b"c"]
    line.put(b"d" * 10)
    assert line.ready() == [b"d" * 10]
    line.put(b"e" * 11)
    assert line.ready() == []
    assert told(line.writer) == [(1, 5, True)]


def test_queue_that_refuses_counts_the_body_that_comes() -> None:
    line = Line(x_max_length_bytes=10, x_overflow="reject-publish")
    line.put(b"a" * 6, b"b" * 5, b"c" * 4)
    assert line.ready() == [b"a" * 6, b"c" * 4]
    assert told(line.writer) == [(2, 2, False), (1, 1, True), (3, 3, True)]


@pytest.mark.parametrize("no_ack", [True, False])
def test_consumer_of_a_queue_of_length_0_gets_as_many_messages_as_there_is_room_for(no_ack: bool) -> None:
    line = Line(x_max_length=0)
    line.consume(prefetch=0 if no_ack else 2, no_ack=no_ack)
    line.put(b"1", b"2", b"3")
    assert line.turn() == ([b"1", b"2", b"3"] if no_ack else [b"1", b"2"])
    assert line.ready() == []
    assert line.q.counters.dropped == (0 if no_ack else 1)
    assert told(line.writer) == [(1, 3, True)]


def test_refusing_queue_of_length_0_accepts_as_many_as_the_consumer_has_room_for() -> None:
    line = Line(x_max_length=0, x_overflow="reject-publish")
    line.put(b"0")
    line.consume(prefetch=2)
    line.put(b"1", b"2", b"3")
    assert told(line.writer) == [(1, 1, False), (4, 4, False), (2, 3, True)]
    assert line.turn() == [b"1", b"2"]


def test_burst_goes_to_the_consumer_first_and_the_rest_is_trimmed(line: Line) -> None:
    line.consume(prefetch=1)
    line.put(*[b"%d" % number for number in range(6)])
    assert line.turn() == [b"0"]
    assert line.ready() == [b"4", b"5"]


@pytest.mark.parametrize(
    ("arguments", "most"),
    [({"x_max_length": 2}, 2 + EXTRA_MESSAGES), ({"x_max_length_bytes": 2000}, (2000 + EXTRA_BYTES) // 1000)],
)
def test_burst_beyond_the_credit_of_consumers_is_bounded_within_a_turn(arguments: dict[str, object], most: int) -> None:
    line = Line(**arguments)
    line.consume(prefetch=1)
    for number in range(5_000):
        line.put(b"%01000d" % number)
        assert line.q.messages <= most
    assert line.q.messages == most
    assert len(line.turn()) == 1
    line.turn()
    assert [int(content) for content in line.ready()] == [4_998, 4_999]


def test_burst_that_consumers_have_credit_for_loses_no_message(line: Line) -> None:
    line.consume()
    for number in range(3_000):
        line.put(b"%d" % number)
    got = line.turn()
    while more := line.turn():
        got += more
    assert [int(content) for content in got] == list(range(3_000))


def test_returned_messages_count_to_the_length_and_the_oldest_are_dropped(line: Line) -> None:
    line.put(b"1", b"2")
    assert [line.get(), line.get()] == [b"1", b"2"]
    line.put(b"3")
    line.session.unsettled.settle_tag(0, True, Outcome.FAILED, line.broker.now)
    assert sorted(line.ready()) == [b"2", b"3"]
    assert line.q.counters.dropped == 1


def test_message_returned_to_a_queue_of_length_0_is_dead_lettered() -> None:
    line = Line(x_max_length=0, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    line.queue("dead")
    line.consume(prefetch=1)
    line.put(b"1")
    assert line.turn() == [b"1"]
    line.broker.cancel(line.session, "c")
    line.session.unsettled.settle_tag(0, True, Outcome.FAILED, line.broker.now)
    line.turn()
    assert (line.depth("q"), line.depth("dead")) == (0, 1)


@pytest.mark.parametrize(("policy", "confirmed"), [("drop-head", True), ("reject-publish-dlx", False)])
def test_publishes_to_a_queue_of_length_0_are_dead_lettered(policy: str, confirmed: bool) -> None:
    line = Line(x_max_length=0, x_overflow=policy, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    line.queue("dead")
    line.put(b"1", b"2")
    line.turn()
    assert (line.depth("q"), line.depth("dead")) == (0, 2)
    assert {outcome[2] for outcome in told(line.writer)} == {confirmed}


def test_depth_never_passes_the_capacity_with_any_length() -> None:
    line = Line(x_max_length=100, capacity_bytes=3 * CHARGE)
    line.put(b"1", b"2", b"3", b"4")
    assert line.ready() == [b"1", b"2", b"3"], "the capacity holds what the length would have dropped the oldest for"
    assert len(line.writer.outbox) == 1
    line.get()
    assert line.q.bytes == 3 * CHARGE


def test_ring_filled_by_unacknowledged_messages_refuses_publishes() -> None:
    line = Line(x_max_length=100, capacity_bytes=3 * CHARGE, x_overflow="drop-head")
    line.put(b"1", b"2", b"3", b"4")
    assert line.ready() == [b"2", b"3", b"4"]
    assert [line.get(), line.get(), line.get()] == [b"2", b"3", b"4"]
    line.put(b"5")
    assert told(line.writer)[0] == (5, 5, False), "what consumers have fills the capacity, and cannot be dropped"
    assert line.q.bytes == 3 * CHARGE


def test_message_beyond_a_length_is_refused_by_the_policy_of_the_length() -> None:
    line = Line(x_max_length=2, x_overflow="reject-publish")
    line.put(b"1", b"2", b"3")
    assert (line.ready(), sorted(told(line.writer))) == ([b"1", b"2"], [(1, 2, True), (3, 3, False)])
    assert line.q.refusing(b"4", line.broker.now).name == "reject"
    assert line.q.dropping() is None
    line.get()
    assert line.q.refusing(b"4", line.broker.now).name == "block", "nothing of the length is in the way"


def test_messages_held_at_the_capacity_stay_held_when_a_length_comes() -> None:
    line = Line(capacity_messages=4)
    line.put(*[b"%d" % number for number in range(12)])
    assert (len(line.ready()), len(line.writer.outbox)) == (4, 8)
    line.set(max_length=5_000_000)
    line.turn()
    assert (len(line.ready()), len(line.writer.outbox), int(line.q.counters.dropped)) == (4, 8, 0)
    line.set(max_length=3)
    line.turn()
    assert line.ready() == [b"9", b"10", b"11"], "the length that somebody asked for"
    assert int(line.q.counters.dropped) == 9


def test_length_without_a_capacity_has_the_default_capacity() -> None:
    assert Line(x_max_length=5).q.thresholds.capacity.as_dict() == {"messages": None, "bytes": 100 * 1024 * 1024}


def test_lowered_length_trims_a_slice_a_turn() -> None:
    line = Line(x_max_length=20_000)
    for _ in range(12_000):
        line.put(b"x")
    line.set(max_length=10)  # The queue's own argument is stronger.
    line.turn()
    assert line.depth("q") == 12_000
    other = Line()
    other.writer.confirming = False
    for _ in range(12_000):
        other.put(b"x")
    other.set(max_length=10)
    depths = [other.depth("q")]
    while other.depth("q") > 10:
        other.turn()
        depths.append(other.depth("q"))
    assert max(before - after for before, after in pairwise(depths)) <= UNITS_A_TURN
    assert depths[0] == 12_000 - TRIMMED_AT_ONCE
    assert not other.broker.pending()


def test_messages_of_an_expired_length_leave_the_count() -> None:
    line = Line(x_max_length_bytes=10, x_message_ttl=1000)
    line.broker.touch_queue(line.q)
    line.put(b"a" * 6)
    line.turn()
    line.broker.begin(line.broker.now + 2)
    line.turn()
    assert (line.depth("q"), line.q.length.bodies) == (0, 0)


def test_refusal_by_length_states_that_ready_messages_count() -> None:
    from penstock.core.publish.admission import refusal_error

    line = Line(x_max_length=1, x_overflow="reject-publish")
    line.put(b"1")
    assert "it has 1 message ready, of a max-length of 1 message, which does not count what consumers have" in str(
        refusal_error(line.q)
    )


@pytest.mark.parametrize("limit", [{"x_max_length": 2}, {"x_max_length_bytes": 2}])
def test_commit_is_refused_as_a_whole_where_a_part_is_too_much(limit: dict[str, object]) -> None:
    line = Line(**limit, x_overflow="reject-publish")
    client = Client(line, "t")
    client.publish("q", CHARGE, CHARGE)
    assert client.commit()
    tag = client.get("q")
    client.ack(tag)
    client.publish("q", CHARGE)
    assert client.commit()
    assert line.depth("q") == 2
    client.publish("q", CHARGE)
    client.commit()
    assert client.producer.closing is not None
    assert "max-length" in str(client.producer.closing)
    assert line.depth("q") == 2


def test_commit_that_requeues_a_delivery_makes_the_message_ready_again() -> None:
    line = Line(x_max_length=2, x_overflow="reject-publish")
    client = Client(line, "t")
    line.put(b"1", b"2")
    tag = client.get("q")
    client.requeue(tag)
    client.publish("q", CHARGE)
    client.commit()
    assert client.producer.closing is not None
    assert len(line.ready()) == 1


def test_commit_into_a_queue_that_drops_the_oldest_leaves_the_newest(line: Line) -> None:
    client = Client(line, "t")
    line.put(b"old")
    client.publish("q", CHARGE, CHARGE)
    assert client.commit()
    assert line.ready() == [b"x", b"x"]


class Lengths(RuleBasedStateMachine):
    """Whatever happens, the octets of bodies that are counted are those that are ready, and the limit holds."""

    def __init__(self) -> None:
        super().__init__()
        self.line = Line(x_max_length=4, x_max_length_bytes=20)
        self.other = Line(x_max_length=4, x_max_length_bytes=20, x_overflow="reject-publish")
        self.house = self.line

    @rule(other=st.booleans())
    def choose(self, other: bool) -> None:
        self.house = self.other if other else self.line

    @rule(sizes=st.lists(st.integers(0, 12), max_size=6))
    def publish(self, sizes: list[int]) -> None:
        self.house.put(*[b"x" * size for size in sizes])

    @rule()
    def enqueue(self) -> None:
        if self.house is self.line:
            self.house.q.enqueue(Envelope("", "q", 0, 5.0), b"mortal", CHARGE, self.house.broker.now)
            self.house.broker.touch_queue(self.house.q)

    @precondition(lambda self: self.house.q.available() > 0)
    @rule()
    def get(self) -> None:
        self.house.get()

    @precondition(lambda self: not self.house.session.unsettled.is_empty())
    @rule(how=st.sampled_from(["ack", "requeue", "discard"]))
    def settle(self, how: str) -> None:
        session, now = self.house.session, self.house.broker.now
        if how == "ack":
            session.unsettled.acknowledge(0, True, now)
        elif how == "requeue":
            session.unsettled.settle_tag(0, True, Outcome.FAILED, now)
        else:
            session.unsettled.settle_tag(0, True, Outcome.REJECTED, now)

    @precondition(lambda self: not self.house.q.consumers)
    @rule(prefetch=st.integers(0, 3))
    def consume(self, prefetch: int) -> None:
        self.house.consume(prefetch)

    @rule()
    def cancel(self) -> None:
        self.house.broker.cancel(self.house.session, "c")

    @rule(seconds=st.integers(0, 6))
    def turn(self, seconds: int) -> None:
        self.house.broker.begin(self.house.broker.now + seconds)
        self.house.turn()
        length = self.house.q.length
        if length.drops:
            assert not length.over()

    @rule()
    def purge(self) -> None:
        self.house.q.purge(self.house.broker.now)

    @invariant()
    def bodies_are_counted(self) -> None:
        for line in (self.line, self.other):
            assert line.q.length.bodies == sum(len(content) for content in line.ready())
            assert line.q.length.ready() == len(line.ready())


TestLengths = Lengths.TestCase
TestLengths.settings = settings(
    max_examples=examples(240), stateful_step_count=40, deadline=None, derandomize=True, database=None
)
