"""A purge of many durable messages over HTTP, and one during a stop of the broker, with a real store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import penstock
from penstock.core.message import Envelope
from penstock.core.queue.deferred_free import RELEASED_A_UNIT
from penstock.core.queue.queue import Queue
from penstock.flow.work import UNITS_A_TURN
from tests.support.brokers import in_process
from tests.support.http_client import Web
from tests.support.loop_steps import steps_of

SLICE = UNITS_A_TURN * RELEASED_A_UNIT
MANY = 2 * SLICE + SLICE // 2


async def filled(broker: penstock.Broker) -> Queue:
    """Return a durable queue with many messages, all on the disk."""
    driver = broker.driver
    queue = driver.broker.vhosts["/"].declare_queue("q", {}, True, False, None, None)
    for number in range(MANY):
        queue.enqueue(Envelope("", "q", persistent=True), b"%d" % number, 300, driver.broker.now)
        if number % 1000 == 0:
            driver.begin(driver.broker.now)
    broker.shard.event_loop.schedule()
    while not driver.broker.journal.is_idle():  # noqa: ASYNC110 - a pass of the loop is what is meant.
        await asyncio.sleep(0)
    return queue


async def left(data: Path) -> int:
    """Return how many messages are in the queue when the broker is there again."""
    async with in_process(data=str(data)) as broker:
        return int(broker.driver.broker.vhosts["/"].queues["q"].waiting())


async def test_purge_over_http_is_done_in_slices_and_answered_at_its_end(tmp_path: Path) -> None:
    async with in_process(http="127.0.0.1:0", data=str(tmp_path)) as broker:
        queue = await filled(broker)
        storage = queue.storage
        web = Web(broker.http_url)
        steps = await steps_of(
            lambda: int(storage.rows), lambda: web.do("DELETE", "/queues/%2F/q/contents", None, status=204)
        )
        assert min(steps) >= -2 * SLICE, "between two looks there are two slices at most"
        assert sum(steps) == -MANY
        assert not broker.driver.broker.journal.removals.pending()
    assert await left(tmp_path) == 0


async def test_purge_that_is_under_way_when_the_broker_stops_is_done(tmp_path: Path) -> None:
    async with in_process(data=str(tmp_path)) as broker:
        queue = await filled(broker)
        core = broker.driver.broker
        assert core.vhosts["/"].purge_queue(queue, core.now) == MANY
        assert queue.storage.rows == MANY
    assert await left(tmp_path) == 0
