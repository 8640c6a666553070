"""Outcomes of deliveries: what each does to the message, its failures and its queue."""

from __future__ import annotations

import pytest

from penstock.core.broker import Broker
from penstock.core.consume.bulk_requeue import settle_in_slices
from penstock.core.consume.outcome import Outcome, modified
from penstock.core.consume.session import Session
from penstock.core.queue.queue import Queue
from penstock.flow.work import AT_ONCE
from tests.support.bare_queue import queue_with
from tests.support.topology import declare

LETTERS: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-delivery-limit": 1}


def delivered(count: int) -> tuple[Broker, Queue, Session]:
    """Return a broker, a queue with a delivery limit of 1 and dead letters, and a session that has its messages."""
    broker, queue = queue_with(count, arguments=LETTERS)
    declare(broker.vhosts["/"], "dead")
    session = Session()
    while session.get(queue, False, 0.0) is not None:
        pass
    return broker, queue, session


def dead(broker: Broker) -> int:
    while broker.run(1000) or broker.pending():
        pass
    return int(broker.vhosts["/"].queues["dead"].messages)


def test_the_modified_outcome_is_failed_released_or_undeliverable() -> None:
    assert modified(True, False) is Outcome.FAILED
    assert modified(False, False) is Outcome.RELEASED
    assert modified(False, True) is modified(True, True) is Outcome.UNDELIVERABLE


@pytest.mark.parametrize("first", [1, 2], ids=["from the front", "behind the front"])
@pytest.mark.parametrize("last", [2, 3], ids=["few", "more"])
@pytest.mark.parametrize(
    ("outcome", "back", "letters", "failures"),
    [
        (Outcome.ACCEPTED, False, False, 0),
        (Outcome.REJECTED, False, True, 0),
        (Outcome.RELEASED, True, False, 0),
        (Outcome.FAILED, True, False, 1),
        (Outcome.UNDELIVERABLE, False, True, 0),
    ],
)
def test_an_outcome_of_a_range(
    outcome: Outcome, back: bool, letters: bool, failures: int, first: int, last: int
) -> None:
    broker, queue, session = delivered(4)
    settled = last - first + 1
    touched = session.unsettled.settle(first, last, outcome, 0.0)
    assert touched == ([queue] if back else [])
    assert session.unsettled.count() == 4 - settled
    assert int(queue.available()) == (settled if back else 0)
    assert dead(broker) == (settled if letters else 0)
    assert int(queue.unacked_messages) == 4 - settled
    for _ in range(int(queue.available())):
        message = queue.ready_queue.pull()
        assert (message.redelivered, message.failures) == (True, failures)


def test_a_released_message_never_reaches_its_delivery_limit_and_a_failed_one_does() -> None:
    broker, queue, session = delivered(1)
    for _ in range(5):
        session.unsettled.settle(1, session.unsettled.last_number(), Outcome.RELEASED, 0.0)
        assert session.get(queue, False, 0.0) is not None
    for _ in range(2):
        assert int(queue.messages) == 1
        session.unsettled.settle(1, session.unsettled.last_number(), Outcome.FAILED, 0.0)
        session.get(queue, False, 0.0)
    assert (dead(broker), int(queue.messages)) == (1, 0)


@pytest.mark.parametrize("outcome", Outcome)
def test_very_many_are_settled_in_slices_with_the_same_result(outcome: Outcome) -> None:
    many = int(AT_ONCE) + 500
    broker, queue, session = delivered(many + 2)
    settle_in_slices(broker, session, 2, many + 1, outcome)
    assert [number for number, _, _ in session.unsettled.deliveries(1, many + 2)] == [1, many + 2]
    letters = many if outcome in (Outcome.REJECTED, Outcome.UNDELIVERABLE) else 0
    back = many if outcome in (Outcome.RELEASED, Outcome.FAILED) else 0
    assert (dead(broker), int(queue.unacked_messages), int(queue.available())) == (letters, 2, back)
