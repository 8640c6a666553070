"""Assertions for asynchronous tests: the loop of the test runs meanwhile."""

from __future__ import annotations

import asyncio

import aio_pika
import aio_pika.exceptions
import pytest

from penstock.testing import BrokerUnderTest, Subject, VirtualClock, aio


async def test_assertions_wait_beside_a_publisher_of_the_same_loop(
    penstock_full_queue: Subject, penstock_broker: BrokerUnderTest, penstock_clock: VirtualClock
) -> None:
    async with await aio_pika.connect(penstock_broker.url) as connection:
        channel = await connection.channel(publisher_confirms=True)
        send = asyncio.create_task(channel.default_exchange.publish(aio_pika.Message(b"3"), "full"))
        await aio.assert_held(penstock_full_queue)
        assert not send.done()
        with pytest.raises(AssertionError, match=r"has not confirmed all publishes within 0.05 s"):
            await aio.assert_confirmed(penstock_full_queue, within=0.05)
        penstock_clock.advance(61)
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await send
        await aio.assert_depth(penstock_full_queue, 2)
        await aio.assert_confirmed(penstock_full_queue)
        queue = await channel.get_queue("full", ensure=False)
        for _ in range(2):  # As long as one is left, the gate closes behind the next publish.
            message = await queue.get()
            await message.ack()
        await channel.default_exchange.publish(aio_pika.Message(b"again"), "full")
