"""Internal errors while a transaction is encoded, and objects that a recovery leaves behind."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import aio_pika
import pytest

import penstock
from penstock.core.queue.ready_queue import NOTHING
from penstock.errors import StoreError
from tests.support.brokers import PATIENCE


async def test_internal_error_while_encoding_confirms_nothing_and_ends_the_broker(
    tmp_path: Path,
) -> None:
    kept = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    async with penstock.Broker(listen="127.0.0.1:0", data=tmp_path / "data") as broker:
        connection = await aio_pika.connect(broker.url)
        channel = await connection.channel()
        queue = await channel.declare_queue("q", durable=True)
        await channel.default_exchange.publish(kept, "q")
        broker.shard.store_writer.journal.rows.clear()  # The fault: a row that has messages is not known any more.
        await (await queue.get()).ack()
        confirmation = asyncio.ensure_future(channel.default_exchange.publish(kept, "q"))
        failure = await asyncio.wait_for(broker.wait_lost(), PATIENCE)
        assert type(failure) is StoreError
        assert str(failure).startswith("internal error while encoding a store transaction (KeyError: ")
        assert not confirmation.done()
    with pytest.raises(aio_pika.exceptions.AMQPError):
        await confirmation
    await connection.close()
    async with penstock.Broker(listen="127.0.0.1:0", data=tmp_path / "data") as broker:
        connection = await aio_pika.connect(broker.url)
        channel = await connection.channel()
        found = await (await channel.declare_queue("q", durable=True, passive=True)).get()
        assert (found.body, found.redelivered) == (b"kept", True)
        await connection.close()


async def test_recovery_leaves_nothing_that_the_next_collections_look_at(tmp_path: Path) -> None:
    async with penstock.Broker(listen="127.0.0.1:0", data=tmp_path / "data") as broker:
        broker.driver.broker.vhosts["/"].declare_queue("q", {}, True, False, None, None)
    gc.collect()
    async with penstock.Broker(listen="127.0.0.1:0", data=tmp_path / "data") as broker:
        queue = broker.driver.broker.vhosts["/"].queues["q"]
        assert gc.is_tracked(queue)
        assert queue.ready_queue.ready is NOTHING, "a queue without messages has no line of its own"
        assert not any(each is queue for generation in (0, 1) for each in gc.get_objects(generation))
