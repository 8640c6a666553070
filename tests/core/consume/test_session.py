"""Delivery tags: what is out, what is settled, what goes back, in any order of acknowledgements."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.broker import Broker
from penstock.core.consume.consumer import BATCH_BYTES, BATCH_MESSAGES, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.queue.queue import Queue
from penstock.errors import PreconditionFailed
from tests.profiles import examples
from tests.support.bare_queue import queue_with


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


def test_a_prefetch_bounds_what_is_out_and_acknowledgements_give_room() -> None:
    broker, queue = queue_with(10)
    session = Session()
    consume(broker, session, queue, 3)
    assert deliver(broker) == [("t", 1, 3)]
    session.unsettled.acknowledge(2, True, 0.0)
    broker.schedule_delivery(queue)
    assert deliver(broker) == [("t", 4, 2)]
    assert (session.unsettled.count(), queue.unacked_messages, queue.messages) == (3, 3, 8)


def test_a_prefetch_of_the_session_is_shared_by_its_consumers() -> None:
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


def test_a_batch_is_bounded_in_messages_and_in_bytes() -> None:
    broker, queue = queue_with(BATCH_MESSAGES + 5)
    consume(broker, Session(), queue, 0)
    assert deliver(broker) == [("t", 1, BATCH_MESSAGES), ("t", BATCH_MESSAGES + 1, 5)]
    broker, queue = queue_with(3, BATCH_BYTES)
    consume(broker, Session(), queue, 0)
    assert deliver(broker) == [("t", 1, 1), ("t", 2, 1), ("t", 3, 1)]


def test_what_goes_back_comes_first_again_in_its_old_order_and_marked() -> None:
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
def test_a_tag_that_is_not_out_is_refused(tag: int, multiple: bool) -> None:
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


def test_a_multiple_that_settles_nothing_is_refused_inside_a_batch_too() -> None:
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


def test_after_a_batch_is_put_back_the_next_one_that_is_done_with_counts_for_nothing() -> None:
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
def test_any_order_of_settling_agrees_with_a_set_of_tags(
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
