"""Messages that timed out: with Penstock they were not sent and never arrive, elsewhere the outcome is unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import penstock
import penstock.sync
from bench.brokers import RABBITMQ, BrokerUnavailable, RabbitmqNode
from bench.brokers import Broker as RunningBroker
from penstock.client.aio import Connection
from tests.client.conversations import both_protocols, depth_of, fresh, received, url_of


async def full_queue(connection: Connection) -> str:
    """Return a queue that is at its capacity, with its messages confirmed: each publisher may send one over 0-9-1."""
    queue = await connection.declare_queue(fresh("full"), capacity_messages=4, hold_deadline=60)
    with pytest.raises(penstock.FlowControlTimeout):  # noqa: PT012 - how many a queue takes is its own affair.
        while True:
            await connection.publisher(queue, window=1).send(b"filler", timeout=1.0)
    return queue


@both_protocols
async def test_message_that_timed_out_never_arrives(broker_url: str, protocol: str) -> None:
    url = url_of(broker_url, protocol)
    async with penstock.connect(url) as connection, penstock.connect(url) as other:
        queue = await full_queue(connection)
        held = await depth_of(connection, queue)
        late = other.publisher(queue)  # It has not been stopped yet: over 0-9-1 its first message is held.
        with pytest.raises(penstock.FlowControlTimeout) as failure:
            await late.send(b"late", timeout=0.2)
        assert failure.value.blocked.queue == queue
        assert late.unsettled == []
        assert await received(connection, queue) == [b"filler"] * held
        await late.send(b"after")
        assert await received(connection, queue) == [b"after"]


@both_protocols
async def test_messages_of_many_that_timed_out_never_arrive(broker_url: str, protocol: str) -> None:
    url = url_of(broker_url, protocol)
    async with penstock.connect(url) as connection, penstock.connect(url) as other:
        queue = await full_queue(connection)
        held = await depth_of(connection, queue)
        late = other.publisher(queue)
        sends = [late.send(b"late %d" % number, timeout=0.2) for number in range(20)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {penstock.FlowControlTimeout}
        assert late.unsettled == []
        assert await received(connection, queue) == [b"filler"] * held


@both_protocols
async def test_message_that_timed_out_never_arrives_with_blocking_calls(broker_url: str, protocol: str) -> None:
    url = url_of(broker_url, protocol)
    async with penstock.connect(url) as connection:
        queue = await full_queue(connection)
        held = await depth_of(connection, queue)
        with penstock.sync.connect(url) as other:
            late = other.publisher(queue)
            with pytest.raises(penstock.FlowControlTimeout):
                late.send(b"late", timeout=0.2)
            assert await received(connection, queue) == [b"filler"] * held
            late.send(b"after")
        assert await received(connection, queue) == [b"after"]


async def test_credit_of_amqp_1_0_ends_at_the_stop_threshold(broker_url: str) -> None:
    """Exact credit: whatever was written is confirmed at once, and the rest is not written."""
    async with penstock.connect(url_of(broker_url, "amqp10")) as connection:
        queue = await connection.declare_queue(fresh(), capacity_messages=8, hold_deadline=60)
        publishers = [connection.publisher(queue) for _ in range(3)]
        receipts = []
        for publisher in publishers:
            while isinstance(receipt := publisher.try_publish(b"x"), penstock.Receipt):
                receipts.append(receipt)
                await receipt
            assert receipt.queue == queue or receipt.cause == "opening"
        with pytest.raises(penstock.FlowControlTimeout):  # noqa: PT012 - the links share what the queue takes.
            while True:
                receipts.append(await publishers[0].send(b"x", timeout=0.2))
        assert {receipt.state for receipt in receipts} == {"confirmed"}
        assert [publisher.unsettled for publisher in publishers] == [[], [], []]
        assert await depth_of(connection, queue) == len(receipts) <= 8


@pytest.fixture(scope="module")
def blocked_rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """RabbitMQ with its memory alarm set: it blocks who publishes."""
    try:
        node = RabbitmqNode(tmp_path_factory.mktemp("rabbitmq"))
        process = node.launch()
        broker = RunningBroker(RABBITMQ, node.title, node.port(process), process, node.close)
    except BrokerUnavailable as reason:
        pytest.skip(str(reason))
    done = node.control("set_vm_memory_high_watermark", "0")
    assert done.returncode == 0, done.stderr
    yield f"amqp://guest:guest@127.0.0.1:{broker.port}/"
    broker.stop()


@pytest.mark.long
async def test_message_that_rabbitmq_has_not_answered_is_a_confirm_timeout(blocked_rabbitmq: str) -> None:
    async with penstock.connect(blocked_rabbitmq) as connection:
        assert connection.protocol == "amqp091"
        queue = await connection.declare_queue(fresh())
        publisher = connection.publisher(queue, window=1)
        with pytest.raises(penstock.ConfirmTimeout) as failure:
            await publisher.send(b"written", timeout=0.5)
        assert failure.value.receipt.state == "on the wire"
        with pytest.raises(penstock.FlowControlTimeout) as other:
            await publisher.send(b"not written", timeout=0.5)
        assert "memory" in str(other.value)
        await publisher.close(timeout=0)
