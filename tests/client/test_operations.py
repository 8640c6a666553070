"""Operations of a connection: blocking, and as coroutines."""

from __future__ import annotations

import asyncio

import penstock
import penstock.sync
from tests.client.conversations import both_protocols, fresh, url_of


@both_protocols
async def test_operations_are_coroutines_and_asynchronous_iterators_in_asyncio(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        queue = await connection.declare_queue(fresh())
        assert queue in {each["name"] async for each in connection.list("queues")}
        answers = await asyncio.gather(*(connection.why(queue) for _ in range(20)))
        assert {answer.gates[0].name for answer in answers} == {queue}
        assert (await connection.status())["vhost"] == "/"
        assert (await connection.show("queue", queue))[0]["setting"]
        await connection.delete_queue(queue)
