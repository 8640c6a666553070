"""Tests of a Celery program: its queue is full, a worker catches up, and its connection is cut."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from celery.contrib.testing.worker import start_worker
from kombu.exceptions import OperationalError
from shop import app, charge, charged

from penstock.testing import (
    assert_confirmed,
    assert_depth,
    assert_depth_never_above,
    assert_held,
    assert_lost_nothing,
)


@pytest.fixture
def orders(penstock_broker):
    """Let the program use this test's broker, and return its queue."""
    app.conf.broker_url = penstock_broker.url
    charged.clear()
    yield penstock_broker.queue("orders")
    app.pool.force_close_all()
    app._pool = None  # The next test has another URL.
    app.amqp._producer_pool = None


def test_order_is_refused_when_nobody_works_for_a_minute(orders, penstock_broker, penstock_clock):
    penstock_broker.full_queue("orders", capacity_messages=20, hold_deadline=60, durable=True)
    with ThreadPoolExecutor() as beside:
        waiting = beside.submit(charge.delay, 20)
        assert_held(orders)
        assert not waiting.done()
        while not waiting.done():
            penstock_clock.advance(61)  # Celery tries twice.
        with pytest.raises(OperationalError):
            waiting.result()
    assert_depth(orders, 20)


def test_worker_catches_up_and_nobody_loses_an_order(orders):
    with start_worker(app, pool="solo", perform_ping_check=False):
        for number in range(100):
            charge.delay(number)
        assert_confirmed(orders, messages=100)
        assert_depth(orders, 0)
    assert_lost_nothing(range(100), charged)
    assert_depth_never_above(orders, 20)


def test_worker_comes_back_after_its_connection_was_cut(orders, penstock_broker):
    with start_worker(app, pool="solo", perform_ping_check=False):
        charge.delay(1)
        assert_depth(orders, 0)
        assert penstock_broker.drop_connection() == 2  # That of the worker, and that of the publisher.
        charge.delay(2)
        assert_confirmed(orders, messages=2)
        assert_depth(orders, 0, within=30)
    assert_lost_nothing([1, 2], charged)
