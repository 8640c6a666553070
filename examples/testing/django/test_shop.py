"""Tests of a Django view that publishes: its queue is full, its gate is closed, and its connection is cut."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.test import Client, override_settings
from shop import QUEUE

from penstock.testing import assert_confirmed, assert_depth, assert_held


@pytest.fixture
def client(penstock_url):
    """Return a customer of the shop, which uses this test's broker."""
    with override_settings(BROKER_URL=penstock_url):
        yield Client()


@pytest.fixture
def orders(penstock_broker):
    """Return the queue of the shop."""
    arguments = {name.replace("-", "_"): value for name, value in QUEUE.items()}
    return penstock_broker.declare_queue("orders", durable=True, **arguments)


def order(client, number):
    """Place an order; return the answer."""
    return client.post("/orders", data=str(number), content_type="text/plain")


def test_order_is_in_the_queue_when_the_customer_has_the_answer(client, orders):
    assert order(client, 1).status_code == 202
    assert_confirmed(orders, messages=1)


def test_customer_is_asked_to_come_again_when_the_shop_is_closed(client, orders, penstock_broker, penstock_clock):
    penstock_broker.close_gate("orders", "stocktaking")
    with ThreadPoolExecutor() as beside:
        waiting = beside.submit(order, client, 1)
        assert_held(orders)
        penstock_clock.advance(3)
        answer = waiting.result(10)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert_depth(orders, 0)


def test_order_goes_on_when_the_shop_opens_again(client, orders, penstock_broker):
    penstock_broker.close_gate("orders", "stocktaking")
    with ThreadPoolExecutor() as beside:
        waiting = beside.submit(order, client, 1)
        assert_held(orders)
        penstock_broker.open_gate("orders")
        assert waiting.result(10).status_code == 202


def test_connection_that_is_cut_is_made_again(client, orders, penstock_broker):
    assert order(client, 1).status_code == 202
    assert penstock_broker.drop_connection() == 1
    assert order(client, 2).status_code == 202
    assert_depth(orders, 2)
