"""The contract with asyncio: a publisher waits, reports the reason, fails in time, and goes on."""

from __future__ import annotations

import logging

import pytest

import penstock
from tests.client.conversations import CONTRACT_OPTIONS, FIRST_WORDS, both_protocols, check_contract, fresh, url_of
from tests.support.brokers import PATIENCE


@both_protocols
async def test_contract_runs_with_asyncio(broker_url: str, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    queue = fresh("orders")
    sent = came = 0
    async with penstock.connect(url_of(broker_url, protocol, **CONTRACT_OPTIONS)) as connection:
        await connection.declare_queue(queue, capacity_messages=2, hold_deadline=60)
        publisher = connection.publisher(queue, window=1)
        with pytest.raises(penstock.FlowControlTimeout) as failure:  # noqa: PT012 - this is the contract's text.
            for _ in range(10):
                await publisher.send(b"order")
                sent += 1
        async with connection.receiver(queue) as receiver:
            while (message := await receiver.receive(timeout=PATIENCE if came < sent else 0.5)) is not None:
                assert message.body == b"order"
                came += 1
                await message.accept()
        check_contract(failure.value, queue, sent, came)
        receipt = await publisher.send(b"again")
        assert receipt.state == "confirmed"
        assert await connection.delete_queue(queue) == 1
    assert any(record.getMessage().startswith(FIRST_WORDS) for record in caplog.records)
    assert {record.name for record in caplog.records if record.levelno == logging.WARNING} == {"penstock"}


async def test_connection_speaks_the_requested_protocol(connection: penstock.Connection, protocol: str) -> None:
    assert connection.protocol == protocol


async def test_connection_speaks_amqp_1_0_where_the_broker_does(broker_url: str) -> None:
    async with penstock.connect(broker_url) as connection:
        assert connection.protocol == "amqp10"
