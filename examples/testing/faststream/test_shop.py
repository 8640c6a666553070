"""Tests of a FastStream program: its queue is full, its broker refuses, and its service charges."""

import asyncio

import pytest
import pytest_asyncio
from aio_pika.exceptions import DeliveryError
from faststream.rabbit import RabbitBroker
from shop import charged, place, service

from penstock.testing import aio, assert_depth_never_above, assert_lost_nothing

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def front(penstock_url):
    """Return the connection of the service that takes orders."""
    async with RabbitBroker(penstock_url) as shop:
        yield shop


async def test_order_waits_for_room_and_is_refused_after_a_minute(front, penstock_broker, penstock_clock):
    orders = penstock_broker.full_queue("orders", capacity_messages=10, hold_deadline=60)
    waiting = asyncio.create_task(place(front, 11))
    await aio.assert_held(orders)
    assert not waiting.done()
    penstock_clock.advance(61)
    with pytest.raises(DeliveryError):
        await waiting
    assert_depth_never_above(orders, 10)


async def test_order_that_the_broker_refuses_is_told(front, penstock_broker):
    orders = penstock_broker.declare_queue("orders", capacity_messages=10, hold_deadline=60)
    penstock_broker.refuse_next(1, "orders")
    with pytest.raises(DeliveryError):
        await place(front, 1)
    await place(front, 2)
    await aio.assert_depth(orders, 1)


async def test_service_charges_all_orders(front, penstock_url, penstock_broker):
    charged.clear()
    async with service(penstock_url) as charging:
        await charging.start()
        for number in range(50):
            await place(front, number)
        await aio.assert_depth(penstock_broker.queue("orders"), 0)
    assert_lost_nothing(range(50), charged)
    assert_depth_never_above(penstock_broker.queue("orders"), 10)
