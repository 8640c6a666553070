"""Byte window of a consumer by arithmetic alone: waiting bytes, and the prefetch for the largest recent body."""

from __future__ import annotations

import pytest

from penstock.client.engine.amqp091.body_window import PERIOD, PREFETCH_LIMIT, BodyWindow


def test_prefetch_is_1_before_the_first_message() -> None:
    assert BodyWindow(1000, 100).prefetch() == 1


@pytest.mark.parametrize(
    ("size", "asked", "prefetch"),
    [(100, 500, 10), (100, 4, 4), (999, 500, 1), (1001, 500, 1), (0, 500, 500), (0, 0, 1000)],
)
def test_prefetch_is_the_number_of_largest_messages_that_fit(size: int, asked: int, prefetch: int) -> None:
    window = BodyWindow(1000, asked)
    window.observe(size)
    assert window.prefetch() == prefetch


def test_prefetch_fits_the_field_of_basic_qos() -> None:
    window = BodyWindow(1 << 40, 0)
    window.observe(1)
    assert window.prefetch() == PREFETCH_LIMIT == 2**16 - 1


def test_largest_message_counts_for_a_period_and_the_next() -> None:
    window = BodyWindow(1000, 500)
    window.observe(500)
    for _ in range(2 * PERIOD - 1):
        window.observe(10)
        assert window.prefetch() == 2
    window.observe(10)
    assert window.prefetch() == 100


def test_message_is_taken_while_no_more_than_the_window_waits() -> None:
    window = BodyWindow(1000, 500)
    assert window.takes(900)
    assert window.takes(100)
    assert window.takes(5000), "one message may go beyond the window"
    assert not window.takes(0)
    window.handed_over(5000)
    assert window.takes(1)
    window.reset()
    assert window.waiting == 0
