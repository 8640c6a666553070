"""A second protocol beside AMQP 0-9-1, on the same port: the same queues, gates, explanations and messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel

import penstock
from penstock.management import why
from penstock.protocols import standard_protocols
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from tests.line_protocol.protocol import HEADER, LineProtocol

GATED = {"capacity-messages": 3, "stop-messages": 2, "resume-messages": 1}


class LineClient:
    """A client of the line protocol on a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, *lines: str) -> None:
        self._writer.write(b"".join(line.encode() + b"\n" for line in lines))

    async def read(self, count: int = 1) -> list[str]:
        """Read so many lines."""
        return [(await self._reader.readline()).decode().rstrip("\n") for _ in range(count)]

    async def ask(self, line: str) -> str:
        self.send(line)
        return (await self.read())[0]

    async def closed(self) -> bytes:
        """Read the rest up to the end of the connection."""
        return await self._reader.read()

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
async def broker() -> AsyncIterator[penstock.Broker]:
    protocols = [*standard_protocols(), LineProtocol()]
    async with penstock.Broker(listen="127.0.0.1:0", settings=Settings(flow_log=NO_LOG), protocols=protocols) as broker:
        yield broker


@pytest.fixture
async def channel(broker: penstock.Broker) -> AsyncIterator[AbstractChannel]:
    connection = await aio_pika.connect(broker.url)
    yield await connection.channel()
    await connection.close()


@pytest.fixture
async def client(broker: penstock.Broker) -> AsyncIterator[LineClient]:
    client = LineClient(*await asyncio.open_connection(*broker.addresses[0]))
    client.send(HEADER.decode().rstrip())
    yield client
    client.close()


async def test_second_protocol_publishes_messages_that_0_9_1_consumes(
    client: LineClient, channel: AbstractChannel
) -> None:
    queue = await channel.declare_queue("q")
    assert await client.ask("PUT q hello world") == "OK 1"
    message = await queue.get()
    assert (message.body, message.message_id, message.routing_key) == (b"hello world", "0", "q")
    await message.ack()


async def test_second_protocol_consumes_messages_that_0_9_1_publishes(
    client: LineClient, channel: AbstractChannel
) -> None:
    await channel.declare_queue("q")
    await channel.default_exchange.publish(aio_pika.Message(b"one", headers={"a": 1}), "q")
    assert await client.ask("GET q") == "MESSAGE q one"
    assert await client.ask("GET q") == "EMPTY"
    client.send("CONSUME q")
    await channel.default_exchange.publish(aio_pika.Message(b"two"), "q")
    assert await client.read() == ["MESSAGE q two"]


async def test_second_protocol_is_held_by_the_same_gate_with_the_reason(
    broker: penstock.Broker, client: LineClient, channel: AbstractChannel
) -> None:
    queue = await channel.declare_queue("q", arguments=GATED)
    for number in range(2):  # From another protocol: the depth is one.
        await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), "q")
    client.send("PUT q two", "PUT q three")
    blocked = (await client.read())[0]
    assert blocked.startswith("BLOCKED queue"), blocked
    assert broker.driver.broker.vhosts["/"].queue("q").messages == 3, "the depth is never above the capacity"
    found = why.of_queue(broker.driver.broker.vhosts["/"].queue("q"), broker.driver.broker)
    assert any("lines" in str(sentence) for sentence in found["sentences"]), found["sentences"]
    bodies: list[bytes] = []
    for _ in range(4):
        message = await queue.get(timeout=30)
        bodies.append(message.body)
        await message.ack()
    assert bodies == [b"0", b"1", b"two", b"three"]
    answers = await client.read(3)
    assert sorted(answers) == ["FREE", "OK 1", "OK 2"], answers


async def test_second_protocol_gets_the_reason_of_a_refusal(client: LineClient, channel: AbstractChannel) -> None:
    await channel.declare_queue("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    assert await client.ask("PUT q one") == "OK 1"
    refused = await client.ask("PUT q two")
    assert refused.startswith("NO 2 "), refused
    assert "'q'" in refused, refused
    assert await client.ask("PUT nowhere x") == "UNROUTABLE nowhere"
    assert await client.read() == ["OK 3"]
    assert "amqp:not-found" in await client.ask("GET nowhere")


async def test_messages_of_a_second_protocol_are_dead_lettered_in_their_format(
    client: LineClient, channel: AbstractChannel
) -> None:
    letters = await channel.declare_queue("letters")
    queue = await channel.declare_queue(
        "q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    )
    assert await client.ask("PUT q bad") == "OK 1"
    await (await queue.get()).reject(requeue=False)
    letter = await letters.get(timeout=30)
    assert letter.body == b"bad"
    assert letter.headers["x-first-death-queue"] == "q"


async def test_second_protocol_shows_in_the_lists_and_ends_in_order(
    broker: penstock.Broker, client: LineClient, channel: AbstractChannel
) -> None:
    await channel.declare_queue("q")
    assert await client.ask("PUT q last") == "OK 1"
    (lines,) = [each for each in broker.driver.connections.values() if each.engine.details()["protocol"] == "lines"]
    assert [session.name for session in lines.engine.sessions()] == [f"{lines.name()}/lines"]
    assert await client.ask("BYE") == "BYE"
    assert await client.closed() == b""
    assert lines.number not in broker.driver.connections


async def test_unknown_bytes_get_the_header_of_the_first_protocol(broker: penstock.Broker) -> None:
    reader, writer = await asyncio.open_connection(*broker.addresses[0])
    writer.write(b"GET / HTTP/1.1\r\n")
    assert await reader.read() == b"AMQP\x00\x00\x09\x01"
    writer.close()
