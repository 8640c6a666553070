"""The states of a producer, and the transitions that are impossible."""

from __future__ import annotations

import pytest

from penstock.core.publish.waiting_publisher import PRODUCER_STATES, ProducerState
from penstock.errors import InternalError, ResourceError
from tests.support.broker_fixture import House


@pytest.fixture
def narrow() -> House:
    return House("a", capacity_messages=1, hold_deadline=5)


def test_a_closed_producer_stays_closed() -> None:
    for state in ProducerState:
        with pytest.raises(InternalError):
            PRODUCER_STATES.move(ProducerState.CLOSED, state)


def test_a_refused_publish_without_a_confirm_closes_its_producer(narrow: House) -> None:
    producer = narrow.producer("p", confirming=False)
    assert producer.state is ProducerState.OPEN
    narrow.publish(producer, "a", 100, count=2)
    narrow.at(105.0)
    assert producer.state is ProducerState.CLOSING
    producer.abort()
    assert producer.state is ProducerState.CLOSED


def test_a_producer_lingers_until_its_last_held_publish_has_passed(narrow: House) -> None:
    producer = narrow.producer("p", confirming=False)
    narrow.publish(producer, "a", 100, count=2)
    producer.close_gracefully()
    assert producer.state is ProducerState.LINGERING
    assert narrow.take("a")
    assert (producer.state, narrow.depth("a")) == (ProducerState.CLOSED, 1)


def test_a_producer_without_held_publishes_is_closed_at_once(narrow: House) -> None:
    producer = narrow.producer("p", confirming=False)
    producer.close_gracefully()
    assert producer.state is ProducerState.CLOSED


def test_a_producer_that_closes_with_an_error_drops_its_held_publishes_although_the_session_closes_normally(
    narrow: House,
) -> None:
    producer = narrow.producer("p", confirming=False)
    narrow.publish(producer, "a", 100, count=3)
    producer.close(ResourceError("refused"))
    narrow.publish(producer, "a", 100)
    assert len(producer.outbox) == 2, "it takes no publishes"
    producer.close_gracefully()
    assert (producer.state, len(producer.outbox)) == (ProducerState.CLOSED, 0)
    assert producer.loss.messages == 2
