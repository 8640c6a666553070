"""A consumer: the messages that it may get now, and why it gets none."""

from __future__ import annotations

from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.session import Session
from penstock.flow.level import UNLIMITED
from tests.support.broker_fixture import House, a_queue


def consumer(window: int = 0, window_bytes: int = -1, no_ack: bool = False) -> tuple[House, Consumer]:
    house, queue = a_queue()
    return house, Consumer("t", Session(), queue, no_ack, False, window, window_bytes)


def test_consumer_without_a_window_may_get_everything() -> None:
    _, found = consumer()
    assert found.credit_left(100.0) == UNLIMITED
    assert found.obstacles(100.0) == []


def test_consumer_has_the_smaller_of_its_own_window_and_the_shared_one() -> None:
    _, found = consumer(window=5)
    assert found.credit_left(100.0) == 5
    found.shared.window = 3
    assert found.credit_left(100.0) == 3


def test_consumer_without_acknowledgements_is_not_bound_by_its_window() -> None:
    _, found = consumer(window=5, no_ack=True)
    assert found.credit_left(100.0) == UNLIMITED


def test_consumer_whose_byte_window_is_too_small_for_the_next_message_says_so() -> None:
    house, found = consumer(window_bytes=1000)
    house.publish_now("a", 800)
    assert found.next_fits()
    found.credit.out, found.credit.out_bytes = 1, 500
    assert not found.next_fits()
    assert found.credit_left(100.0) == 0
    assert found.obstacles(100.0) == ["out of credit: 500 bytes unacknowledged of a window of 1,000"]


def test_consumer_batch_ends_with_its_last_delivery_tag() -> None:
    _, found = consumer()
    batch = Batch(found, 7, [None, None, None], 300, 100.0)
    assert (batch.last(), batch.left) == (9, 3)
