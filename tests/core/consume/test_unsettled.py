"""The unsettled deliveries of a session against a dictionary: any range, any outcome, in any order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.errors import PreconditionFailed
from tests.profiles import examples
from tests.support.bare_queue import queue_with


def numbers(session: Session, first: int = 1, last: int = 1000) -> list[int]:
    return [number for number, _, _ in session.unsettled.deliveries(first, last)]


@settings(max_examples=examples(300), derandomize=True, database=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(-1, 45), st.integers(-2, 20), st.sampled_from(Outcome), st.booleans()), max_size=25),
)
def test_outcomes_of_ranges_in_any_order_agree_with_a_set(
    batches: list[int], steps: list[tuple[int, int, Outcome, bool]]
) -> None:
    _, queue = queue_with(sum(batches))
    session = Session()
    consumer = Consumer("t", session, queue, False, False, 0)
    out: dict[int, int] = {}
    for size in batches:
        batch = session.take_batch(consumer, size, 0.0)
        for offset, message in enumerate(batch.messages):
            out[int(batch.first) + offset] = int(message.sequence)
    depth, back = len(out), set[int]()
    ledger = session.unsettled
    for first, more, outcome, detaches in steps:
        last = first + more
        concerned = [number for number in out if first <= number <= last]
        assert numbers(session, first, last) == concerned
        assert len(concerned) <= ledger.span(first, last)
        assert ledger.is_front(first) == (not any(number < first for number in out))
        if detaches:
            parts = ledger.detach(first, last)
            found = [message.sequence for part in parts for message in part.messages if message is not None]
            assert found == [out[number] for number in concerned]
            for part in parts:
                queue.unacked(-part.left, -part.charge)
                queue.settle(part.left, part.charge, 0.0)
        else:
            ledger.settle(first, last, outcome, 0.0)
        if not detaches and outcome in (Outcome.RELEASED, Outcome.FAILED, Outcome.UNDELIVERABLE):
            back |= {out[number] for number in concerned}
        else:
            depth -= len(concerned)
        for number in concerned:
            del out[number]
        assert (numbers(session), ledger.count(), ledger.is_empty()) == (list(out), len(out), not out)
        assert (queue.messages, queue.bytes) == (depth, 10 * depth)
        assert (queue.unacked_messages, queue.unacked_bytes) == (len(out), 10 * len(out))
        assert consumer.credit.out == session.credit.out == len(out)
        assert {int(sequence) for sequence, _ in queue.ready_queue.returned} == back


def test_numbers_that_are_not_unsettled_are_ignored() -> None:
    _, queue = queue_with(2)
    session = Session()
    session.take_batch(Consumer("t", session, queue, False, False, 0), 2, 0.0)
    for first, last in ((0, 0), (3, 3), (5, 9), (2, 1), (-5, 0)):
        for outcome in Outcome:
            assert session.unsettled.settle(first, last, outcome, 0.0) == []
    assert numbers(session) == [1, 2]


def test_delivery_settled_at_once_has_a_number_and_is_never_unsettled() -> None:
    _, queue = queue_with(3)
    session = Session()
    session.take_batch(Consumer("settled", session, queue, True, False, 0), 2, 0.0)
    session.take_batch(Consumer("unsettled", session, queue, False, False, 0), 1, 0.0)
    assert (numbers(session), int(session.unsettled.last_number())) == ([3], 3)


def test_unknown_tag_is_refused_by_the_methods_for_tags_only() -> None:
    session = Session()
    for multiple in (True, False):
        with pytest.raises(PreconditionFailed, match="unknown delivery tag 7"):
            session.unsettled.acknowledge(7, multiple, 0.0)
        for outcome in Outcome:
            with pytest.raises(PreconditionFailed, match="unknown delivery tag 7"):
                session.unsettled.settle_tag(7, multiple, outcome, 0.0)
    assert session.unsettled.settle_tag(0, True, Outcome.FAILED, 0.0) == []


def test_closing_session_hands_over_the_unsettled_deliveries() -> None:
    _, queue = queue_with(5)
    session = Session()
    for _ in range(5):
        session.get(queue, False, 0.0)
    session.unsettled.settle(1, 1, Outcome.ACCEPTED, 0.0)
    session.unsettled.settle(3, 3, Outcome.ACCEPTED, 0.0)
    left = [message.sequence for batch in session.unsettled.hand_over() for message in batch.messages if message]
    assert (left, session.unsettled.is_empty(), int(queue.unacked_messages)) == ([2, 4, 5], True, 3)


def test_numbers_of_a_consumer_are_ranges() -> None:
    session = Session()
    _, queue = queue_with(6)
    one, other = (Consumer(tag, session, queue, False, False, 0) for tag in "ab")
    for consumer in (one, other, one):
        session.take_batch(consumer, 2, 0.0)
    assert session.unsettled.numbers_of(one) == [(1, 2), (5, 6)]
    session.unsettled.settle(1, 2, Outcome.ACCEPTED, 0.0)
    assert session.unsettled.numbers_of(one) == [(5, 6)]
