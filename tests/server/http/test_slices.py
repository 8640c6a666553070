"""The share of HTTP in a turn: long work is cut into slices."""

from __future__ import annotations

import asyncio

from penstock.server.http import get_messages
from tests.support.brokers import in_process
from tests.support.http_client import Web
from tests.support.loop_steps import steps_of


async def test_gets_with_requeue_of_eight_clients_are_cut_into_slices() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        await asyncio.to_thread(web.fill, 400)
        queue = broker.driver.broker.vhosts["/"].queues["q"]
        got: list[list[str]] = []
        take = lambda: got.append([each["payload"] for each in web.take("q", count=40)])  # noqa: E731
        steps = await steps_of(lambda: int(queue.waiting()), *[take] * 8)
        # Between two looks there is one slice, or two: a look is now before, now after the slice of its pass.
        assert -2 * get_messages.MESSAGES_AT_ONCE <= min(steps) <= -get_messages.MESSAGES_AT_ONCE
        assert max(steps) <= 2 * get_messages.SETTLED_AT_ONCE
        assert 8 * 3 // 2 <= len(steps) <= 8 * 3  # Each takes twice 20 messages and puts 40 back.
        assert sorted(len(each) for each in got) == [40] * 8
        again = await asyncio.to_thread(web.take, "q")
        assert [each["payload"] for each in again] == [str(number) for number in range(400)]
