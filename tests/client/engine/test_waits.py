"""Senders that are cancelled at random points, seeded: the reported state of a message is its real one.

A cancelled `publish` sends nothing, and a place that was already handed to a cancelled sender goes to the next one.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

import penstock
from tests.client.conversations import both_protocols, fresh, until, url_of

SENDERS = 1000


@both_protocols
@pytest.mark.parametrize("seed", [1, 2])
async def test_message_reported_unsent_is_not_delivered(broker_url: str, protocol: str, seed: int) -> None:
    chance = Random(seed)
    said: dict[int, str] = {}
    came: list[int] = []
    url = url_of(broker_url, protocol)
    async with penstock.connect(url) as consuming, penstock.connect(url) as connection:
        queue = await connection.declare_queue(fresh(), capacity_messages=50, hold_deadline=60)
        publisher = connection.publisher(queue, window=20)

        async def send(number: int) -> None:
            said[number] = "not sent"
            receipt = await publisher.publish(b"%d" % number)
            said[number] = "under way"
            await receipt
            said[number] = "confirmed"

        async def consume() -> None:
            async with consuming.receiver(queue, prefetch=10) as receiver:
                async for message in receiver:
                    came.append(int(message.body))
                    message.accept()
                    if chance.random() < 0.2:
                        await asyncio.sleep(0.001)

        consumer = asyncio.create_task(consume())
        tasks: list[asyncio.Task[None]] = []
        for number in range(SENDERS):
            tasks.append(asyncio.create_task(send(number)))
            await asyncio.sleep(0 if chance.random() < 0.9 else chance.random() * 0.003)
            victims = [task for task in tasks[-60:] if not task.done()]
            while victims and chance.random() < 0.45:
                victims.pop(chance.randrange(len(victims))).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await publisher.drain()
        sent = {number for number, state in said.items() if state != "not sent"}
        await until(lambda: len(came) >= len(sent) or consumer.done())
        consumer.cancel()
        core = publisher._core
        assert set(came) == sent
        assert came == sorted(came)
        assert len(came) == len(set(came))
        assert (len(core.line), core.granted, core.unsettled_count) == (0, 0, 0)
    assert 0 < list(said.values()).count("not sent") < SENDERS
