"""A broker that is stopped during its recovery stops at once without loss."""

import asyncio
from pathlib import Path

import pytest

import penstock
from penstock.persistence.restore import RECORDS_A_STEP
from tests.support.pika_helpers import channel_of

QUEUES = 4 * RECORDS_A_STEP


def declare_all(broker: penstock.Broker) -> None:
    with channel_of(broker) as channel:
        for number in range(QUEUES):
            channel.queue_declare(f"q{number}", durable=True)


def queues(broker: penstock.Broker) -> int:
    return len(broker.driver.broker.vhosts["/"].queues)


async def test_start_cancelled_while_queues_are_read_ends_at_once_and_loses_nothing(tmp_path: Path) -> None:
    async with penstock.Broker(listen="127.0.0.1:0", data=tmp_path) as broker:
        await asyncio.to_thread(declare_all, broker)
    again = penstock.Broker(listen="127.0.0.1:0", data=tmp_path)
    starting = asyncio.create_task(again.start())
    while not queues(again):  # noqa: ASYNC110 - each pass of the loop is one step
        await asyncio.sleep(0)
    assert queues(again) <= RECORDS_A_STEP, "the loop is free after each step"
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert queues(again) < QUEUES
    async with penstock.Broker(listen="127.0.0.1:0", data=tmp_path) as broker:
        assert queues(broker) == QUEUES
