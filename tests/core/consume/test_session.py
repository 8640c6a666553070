"""Delivery tags of a session: unacknowledged, settled and returned ones, in any order of acknowledgements.

Drains: the credit is given up when no message can be delivered, pages and unfinished scans included.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.selector.selector import parse_selector
from penstock.core.broker import Broker
from penstock.core.consume.consumer import BATCH_BYTES, BATCH_MESSAGES, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.scan import SLICE, MessageFilter, SelectorScan
from penstock.core.consume.session import Session, cancel_drain, is_drained, request_drain, settle_in_slices
from penstock.core.effects import Drained
from penstock.core.queue.queue import Queue
from penstock.errors import PreconditionFailed
from penstock.flow.credit import LinkCredit
from tests.core.consume.test_scan_browser import BrowsedHouse
from tests.profiles import examples
from tests.support.bare_queue import queue_with
from tests.support.selecting_bench import SelectingBench


def consume(broker: Broker, session: Session, queue: Queue, window: int, tag: str = "t") -> Consumer:
    consumer = Consumer(tag, session, queue, False, False, window)
    broker.consume(session, consumer)
    return consumer


def deliver(broker: Broker) -> list[tuple[str, int, int]]:
    """Every batch that is to be had: the consumer, the first tag, how many."""
    batches: list[tuple[str, int, int]] = []
    while (batch := broker.next_batch()) is not None:
        batches.append((batch.consumer.tag, int(batch.first), len(batch.messages)))
    return batches


def test_prefetch_bounds_deliveries_and_acknowledgements_give_room() -> None:
    broker, queue = queue_with(10)
    session = Session()
    consume(broker, session, queue, 3)
    assert deliver(broker) == [("t", 1, 3)]
    session.unsettled.acknowledge(2, True, 0.0)
    broker.schedule_delivery(queue)
    assert deliver(broker) == [("t", 4, 2)]
    assert (session.unsettled.count(), queue.unacked_messages, queue.messages) == (3, 3, 8)


def test_prefetch_of_a_session_is_shared_by_the_consumers() -> None:
    broker, queue = queue_with(10)
    session = Session()
    session.credit.window = 4
    consume(broker, session, queue, 3, "a")
    consume(broker, session, queue, 3, "b")
    assert deliver(broker) == [("a", 1, 3), ("b", 4, 1)]


def test_consumers_of_a_queue_take_turns() -> None:
    broker, queue = queue_with(6)
    for tag in "abc":
        consume(broker, Session(), queue, 1, tag)
    assert deliver(broker) == [("a", 1, 1), ("b", 1, 1), ("c", 1, 1)]


def test_batch_is_bounded_in_messages_and_in_bytes() -> None:
    broker, queue = queue_with(BATCH_MESSAGES + 5)
    consume(broker, Session(), queue, 0)
    assert deliver(broker) == [("t", 1, BATCH_MESSAGES), ("t", BATCH_MESSAGES + 1, 5)]
    broker, queue = queue_with(3, BATCH_BYTES)
    consume(broker, Session(), queue, 0)
    assert deliver(broker) == [("t", 1, 1), ("t", 2, 1), ("t", 3, 1)]


def test_returned_messages_come_first_in_the_old_order_marked_as_redelivered() -> None:
    broker, queue = queue_with(5)
    session = Session()
    consume(broker, session, queue, 4)
    deliver(broker)
    session.unsettled.settle_tag(3, False, Outcome.FAILED, 0.0)
    session.unsettled.settle_tag(1, False, Outcome.FAILED, 0.0)
    again = [queue.ready_queue.pull() for _ in range(3)]
    assert [int(message.sequence) for message in again] == [1, 3, 5]
    assert [message.redelivered for message in again] == [True, True, False]


@pytest.mark.parametrize(("tag", "multiple"), [(4, False), (4, True), (9, True), (-1, True)])
def test_unknown_delivery_tag_is_refused(tag: int, multiple: bool) -> None:
    broker, queue = queue_with(5)
    session = Session()
    consume(broker, session, queue, 3)
    deliver(broker)
    with pytest.raises(PreconditionFailed, match=f"unknown delivery tag {tag}"):
        session.unsettled.acknowledge(tag, multiple, 0.0)
    session.unsettled.acknowledge(0, True, 0.0)
    assert session.unsettled.count() == 0
    with pytest.raises(PreconditionFailed):
        session.unsettled.acknowledge(2, True, 0.0)


def test_multiple_acknowledgement_that_settles_no_delivery_is_refused() -> None:
    broker, queue = queue_with(4)
    session = Session()
    consume(broker, session, queue, 0)
    deliver(broker)
    session.unsettled.acknowledge(1, False, 0.0)
    session.unsettled.acknowledge(2, False, 0.0)
    with pytest.raises(PreconditionFailed):
        session.unsettled.acknowledge(2, True, 0.0)
    session.unsettled.acknowledge(3, True, 0.0)
    assert session.unsettled.count() == 1


def test_multiple_acknowledgement_after_a_returned_batch_is_refused() -> None:
    _, queue = queue_with(4)
    session = Session()
    for _ in range(4):
        session.get(queue, False, 0.0)
    session.unsettled.acknowledge(2, False, 0.0)
    session.unsettled.settle_tag(1, True, Outcome.FAILED, 0.0)
    with pytest.raises(PreconditionFailed):
        session.unsettled.acknowledge(2, True, 0.0)


def settle_tag(session: Session, tag: int, multiple: bool, what: str) -> None:
    if what == "ack":
        session.unsettled.acknowledge(tag, multiple, 0.0)
    else:
        session.unsettled.settle_tag(tag, multiple, Outcome.FAILED, 0.0)


@settings(max_examples=examples(400), derandomize=True, database=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 45), st.booleans(), st.sampled_from(["ack", "requeue", "recover"])), max_size=25),
)
def test_acknowledgements_in_any_order_agree_with_a_set_of_tags(
    batches: list[int], steps: list[tuple[int, bool, str]]
) -> None:
    _, queue = queue_with(sum(batches))
    session = Session()
    out: dict[int, int] = {}
    consumer = Consumer("t", session, queue, False, False, 0)
    for size in batches:
        batch = session.take_batch(consumer, size, 0.0)
        for offset, message in enumerate(batch.messages):
            out[int(batch.first) + offset] = int(message.sequence)
    depth, back = len(out), set[int]()
    for tag, multiple, what in steps:
        if what == "recover":
            session.unsettled.settle_tag(0, True, Outcome.FAILED, 0.0)
            back |= set(out.values())
            out.clear()
            continue
        tags = [each for each in out if each == tag or (multiple and (each <= tag or tag == 0))]
        if tag not in out and not (multiple and tag == 0):  # RabbitMQ refuses a multiple whose own tag is not out.
            with pytest.raises(PreconditionFailed):
                settle_tag(session, tag, multiple, what)
            continue
        if what == "ack":
            session.unsettled.acknowledge(tag, multiple, 0.0)
            depth -= len(tags)
        else:
            session.unsettled.settle_tag(tag, multiple, Outcome.FAILED, 0.0)
            back |= {out[each] for each in tags}
        for each in tags:
            del out[each]
        assert session.unsettled.count() == len(out)
        assert (queue.messages, queue.bytes) == (depth, 10 * depth)
        assert (queue.unacked_messages, queue.unacked_bytes) == (len(out), 10 * len(out))
        assert consumer.credit.out == session.credit.out == len(out)
        assert {int(sequence) for sequence, _ in queue.ready_queue.returned} == back


RED = "color = 'red'"


def drained(bench: SelectingBench) -> list[tuple[str, int]]:
    """Deliver; return the consumers that are told at the end of the turn, with the credit that they gave up."""
    bench.deliver()
    return told(bench)


def told(bench: SelectingBench) -> list[tuple[str, int]]:
    bench.broker.review_drains()
    return [
        (effect.consumer.tag, int(effect.credit)) for effect in bench.broker.effects() if isinstance(effect, Drained)
    ]


@pytest.fixture
def bench() -> SelectingBench:
    return SelectingBench()


def test_empty_queue_is_drained_at_the_end_of_the_turn(bench: SelectingBench) -> None:
    consumer = bench.attach("a", credit=50)
    bench.deliver()
    request_drain(consumer)
    assert told(bench) == [], "not before the queue had its turn"
    assert drained(bench) == [("a", 50)]
    credit = consumer.credit
    assert (credit.left(), credit.delivery_count) == (0, 50)
    assert drained(bench) == [], "once"
    bench.put("red")
    bench.deliver()
    assert bench.got["a"] == []


@pytest.mark.parametrize(("messages", "credit", "browses", "given_up"), [
    (3, 5, False, 2), (3, 3, False, 0), (700, 1000, True, 300),
])  # fmt: skip
def test_drain_delivers_ready_messages_first(messages: int, credit: int, browses: bool, given_up: int) -> None:
    bench = SelectingBench(*["red"] * messages)
    request_drain(bench.attach("a", credit=credit, browses=browses))
    assert drained(bench) == [("a", given_up)]
    assert bench.got["a"] == list(range(1, messages + 1))


def test_withdrawn_request_keeps_the_credit(bench: SelectingBench) -> None:
    consumer = bench.attach("a", credit=3)
    request_drain(consumer)
    cancel_drain(consumer)
    assert drained(bench) == []
    assert consumer.credit.left() == 3


def test_unfinished_scan_is_waited_for() -> None:
    bench = SelectingBench(*["green"] * (3 * SLICE), "red")
    consumer = bench.attach("a", RED, credit=5)
    request_drain(consumer)
    bench.deliver(SLICE)
    assert told(bench) == []
    assert not is_drained(consumer)
    assert drained(bench) == [("a", 4)]
    assert bench.got["a"] == [3 * SLICE + 1]


def test_messages_that_no_selector_matches_are_not_waited_for() -> None:
    bench = SelectingBench("green")
    request_drain(bench.attach("a", RED, credit=5))
    assert drained(bench) == [("a", 5)]


def test_messages_on_their_way_back_are_waited_for() -> None:
    bench = SelectingBench(*["red"] * 3000)
    bench.attach("a")
    bench.deliver()
    consumer = bench.attach("b", credit=5000)
    bench.broker.cancel(bench.sessions["a"], "a")
    settle_in_slices(bench.broker, bench.sessions["a"], 1, 3000, Outcome.RELEASED)
    assert bench.queue.returning
    request_drain(consumer)
    assert drained(bench) == []
    while bench.queue.returning:
        bench.turn()
    assert drained(bench) == [("b", 2000)]
    assert len(bench.got["b"]) == 3000


class Narrow(Session):
    """A session whose output is full."""

    full = True

    def receiving(self) -> bool:
        return not self.full


def test_full_output_is_waited_for_if_a_message_can_be_sent(bench: SelectingBench) -> None:
    session = Narrow()
    bench.sessions["a"] = session
    consumer = bench.attach("a", credit=5)
    request_drain(consumer)
    assert drained(bench) == [("a", 5)], "nothing is there"
    bench.put("red")
    bench.grant(consumer, 5)
    request_drain(consumer)
    assert drained(bench) == []
    session.full = False
    session.outlet.schedule_wake()
    assert drained(bench) == [("a", 4)]
    assert bench.got["a"] == [1]


@pytest.mark.parametrize("selector", [None, RED])
def test_drain_does_not_wait_for_a_byte_window(selector: str | None, bench: SelectingBench) -> None:
    """Its receiver may settle only after the answer."""
    bench.put("red", "red", charge=60)
    request_drain(bench.attach("a", selector, credit=5, window_bytes=100))
    assert drained(bench) == [("a", 4)]
    assert bench.got["a"] == [1]


def test_another_single_active_consumer_is_not_waited_for() -> None:
    bench = SelectingBench("red", **{"x-single-active-consumer": True})
    bench.attach("a", credit=0)
    request_drain(bench.attach("b", credit=5))
    assert drained(bench) == [("b", 5)]


def test_missed_message_that_another_consumer_has_meanwhile_is_not_waited_for(bench: SelectingBench) -> None:
    bench.attach("b", priority=1, credit=1)
    bench.put("red")
    bench.deliver()
    bench.put("green")
    consumer = bench.attach("a", RED, credit=3)
    bench.deliver()
    bench.attach("c", priority=2, credit=2)
    bench.release("b")
    bench.deliver()
    assert (bench.got["c"], bench.got["a"]) == ([1, 2], [])
    request_drain(consumer)
    assert drained(bench) == [("a", 3)]


def test_drain_of_a_cancelled_consumer_is_not_answered(bench: SelectingBench) -> None:
    consumer = bench.attach("a", credit=5)
    bench.attach("b")
    request_drain(consumer)
    bench.broker.cancel(bench.sessions["a"], "a")
    assert drained(bench) == []
    request_drain(consumer)
    cancel_drain(consumer)


class DrainedHouse(BrowsedHouse):
    """A broker that pages: what is told, while the disk is worked by hand."""

    def told(self) -> list[int]:
        self.broker.review_drains()
        return [int(each.credit) for each in self.broker.effects() if isinstance(each, Drained)]

    def consumer(self, credit: int) -> tuple[Consumer, list[bytes]]:
        consumer = Consumer("a", self.session, self.queues["q"], True, False, 0)
        consumer.credit = LinkCredit()
        self.broker.consume(self.session, consumer)
        self.session.grant_credit(consumer, 0, credit)
        return consumer, []

    def deliver(self, found: list[bytes]) -> None:
        while (batch := self.broker.next_batch()) is not None:
            found.extend(each.content for each in batch.messages if each is not None)


def test_pages_that_are_being_written_or_read_are_waited_for() -> None:
    house = DrainedHouse()
    house.fill(1, 30)
    consumer, found = house.consumer(100)
    request_drain(consumer)
    house.deliver(found)
    assert (len(found), house.told()) == (4, []), "26 are not written yet"
    rounds = 0
    while len(found) < 30:
        house.write()
        house.ask()
        while house.reads:
            house.load()
            house.ask()
        house.deliver(found)
        rounds += 1
        assert rounds < 100
        if len(found) < 30:
            assert house.told() == []
    assert house.told() == [70]
    assert found == [b"%03d" % number for number in range(1, 31)]


def test_pages_are_waited_for_until_a_browser_has_read_the_pages() -> None:
    house = DrainedHouse(30)
    house.grant(100)
    request_drain(house.browser)
    house.deliver(house.got)
    assert (len(house.got), house.told()) == (4, [])
    while len(house.got) < 30:
        house.ask()
        assert house.told() == []
        house.load()
        house.deliver(house.got)
    assert house.told() == [70]


def test_selector_does_not_wait_for_pages_without_room_in_memory() -> None:
    bench_house = DrainedHouse(30)

    consumer = Consumer("a", bench_house.session, bench_house.queues["q"], True, False, 0)
    consumer.credit = LinkCredit()
    wanted = MessageFilter(bench_house.broker.formats, parse_selector("a = 1"))
    consumer.scan = SelectorScan(consumer, wanted, bench_house.broker.work)
    bench_house.broker.consume(bench_house.session, consumer)
    bench_house.session.grant_credit(consumer, 0, 10)
    request_drain(consumer)
    bench_house.deliver([])
    assert bench_house.told() == [10]
    assert consumer.obstacles(bench_house.now) == ["its receiver has granted no credit"]
    bench_house.session.grant_credit(consumer, 10, 10)
    assert consumer.obstacles(bench_house.now) == [
        "waits for a message that its selector matches; 26 messages on the disk are read when there is room for them"
    ]
