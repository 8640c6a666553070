"""A fault of the broker's own, where what is to be kept is put together: it ends, and has confirmed nothing wrongly."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aio_pika
import pytest

import penstock
from penstock.errors import StoreError
from tests.support.brokers import PATIENCE


async def test_internal_error_while_encoding_a_transaction_confirms_nothing_and_ends_the_broker(
    tmp_path: Path,
) -> None:
    kept = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    async with penstock.Broker(listen="127.0.0.1:0", data=tmp_path / "data") as broker:
        connection = await aio_pika.connect(broker.url)
        channel = await connection.channel()
        queue = await channel.declare_queue("q", durable=True)
        await channel.default_exchange.publish(kept, "q")
        assert broker._store_writer is not None
        broker._store_writer.journal.rows.clear()  # The fault: a row that has messages is not known any more.
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
