"""Received messages that are passed on, between all pairs of protocols."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from proton import Message as ProtonMessage
from proton import symbol
from proton.utils import BlockingConnection

import penstock
from penstock.content.properties import Properties
from tests.client.conversations import PROTOCOLS, fresh, url_of

PAIRS = [(source, target) for source in PROTOCOLS for target in PROTOCOLS]
FULL = Properties(
    content_type="application/json",
    content_encoding="gzip",
    headers={"text": "é", "number": -7, "yes": True, "x-list": [1, "x"], "none": None},
    delivery_mode=2,
    priority=3,
    correlation_id="c-1",
    reply_to="answers",
    expiration="60000",
    message_id="m-1",
    timestamp=int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()),
    type="order",
    app_id="shop",
)
BODIES = [b"", b"x", b"y" * 255, b"z" * 256, bytes(300_000)]


async def passed(broker_url: str, pair: tuple[str, str], messages: list[penstock.Message]) -> list[penstock.Delivery]:
    """Return what a consumer gets of messages that went through a second queue."""
    first, second = fresh(), fresh()
    source, target = pair
    async with (
        penstock.connect(url_of(broker_url, source)) as old,
        penstock.connect(url_of(broker_url, target)) as new,
    ):
        for name in (first, second):
            await old.declare_queue(name)
        assert (await old.publisher(first).send_many(messages)).refused == []
        publisher = new.publisher(second)
        async with old.receiver(first) as receiver:
            for _ in messages:
                delivery = await receiver.receive(10)
                assert delivery is not None
                receipt = await publisher.forward(delivery)
                await receipt
                delivery.accept()
        async with old.receiver(second) as receiver:
            found = [await receiver.receive(10) for _ in messages]
        assert await new.publisher(first).send(b"the end")
    return [each for each in found if each is not None]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
async def test_forwarded_messages_keep_properties_and_bodies(broker_url: str, pair: tuple[str, str]) -> None:
    sent = [penstock.Message(body, properties=FULL.copy()) for body in BODIES]
    sent += [penstock.Message(b"bare", durable=False), penstock.Message(b"bare again", durable=False)]
    found = await passed(broker_url, pair, sent)
    assert [each.body for each in found] == [each.body for each in sent]
    for before, after in zip(sent, found, strict=True):
        expected, got = before.properties.copy(), after.properties
        if pair[0] == "amqp10" and expected.expiration is not None:  # Its ttl is what is left of it (section 3.2.1).
            assert 0 < int(got.expiration or 0) <= int(expected.expiration)
            expected.expiration = got.expiration
        assert got == expected
        assert not after.redelivered


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
async def test_forwarded_message_is_neither_copied_again_nor_of_another_user(
    broker_url: str, pair: tuple[str, str]
) -> None:
    copies = fresh()
    async with penstock.connect(url_of(broker_url, "amqp091")) as connection:
        await connection.declare_queue(copies)
        headers: dict[str, object] = {"CC": [copies], "kept": 1}
        [found] = await passed(broker_url, pair, [penstock.Message(b"x", headers=headers, user_id="guest")])
        assert found.headers.get("kept") == 1
        async with connection.receiver(copies) as receiver:
            assert (await receiver.receive(10)) is not None
            assert (await receiver.receive(0.1)) is None


async def test_forwarded_message_goes_to_the_given_exchange_and_key(broker_url: str) -> None:
    first, second = fresh(), fresh()
    async with penstock.connect(url_of(broker_url, "amqp091")) as connection:
        for name in (first, second):
            await connection.declare_queue(name)
        await connection.publisher(first).send(penstock.Message(b"x", correlation_id="7"))
        async with connection.receiver(first) as receiver:
            delivery = await receiver.receive(10)
            assert delivery is not None
            await (await connection.publisher(exchange="amq.topic").forward(delivery, routing_key=second, exchange=""))
        async with connection.receiver(second) as receiver:
            found = await receiver.receive(10)
        assert found is not None
        assert (found.body, found.properties.correlation_id, found.routing_key) == (b"x", "7", second)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_properties_that_are_set_on_a_forwarded_message_are_sent(broker_url: str, protocol: str) -> None:
    first, second = fresh(), fresh()
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        for name in (first, second):
            await connection.declare_queue(name)
        await connection.publisher(first).send(penstock.Message(b"x", app_id="shop", headers={"a": 1}))
        async with connection.receiver(first) as receiver:
            delivery = await receiver.receive(10)
            assert delivery is not None
            message = delivery.forwarded()
            message.properties = message.properties.copy()
            message.properties.headers = {"b": 2}
            await connection.publisher(second).send(message)
        async with connection.receiver(second) as receiver:
            found = await receiver.receive(10)
        assert found is not None
        assert (found.body, found.properties.app_id, found.headers) == (b"x", "shop", {"b": 2})


async def test_header_that_the_other_protocol_cannot_carry_is_refused_before_it_is_sent(broker_url: str) -> None:
    queue = fresh()
    async with (
        penstock.connect(url_of(broker_url, "amqp091")) as old,
        penstock.connect(url_of(broker_url, "amqp10")) as new,
    ):
        await old.declare_queue(queue)
        await old.publisher(queue).send(penstock.Message(b"x", headers={"list": [1]}))
        publisher = new.publisher(queue)
        async with old.receiver(queue) as receiver:
            delivery = await receiver.receive(10)
            assert delivery is not None
            with pytest.raises(ValueError, match=r"the header 'list' cannot be sent: over AMQP 1\.0 a list goes only"):
                await publisher.forward(delivery)
            assert await publisher.send(b"the next")


async def test_sections_of_amqp10_go_on_as_they_came(broker_url: str) -> None:
    first, second = fresh(), fresh()
    url = url_of(broker_url, "amqp10")
    sent = ProtonMessage(
        body={"map": [1, 2.5, None]},
        durable=True,
        properties={"long": 2**40},
        annotations={symbol("x-opt-mine"): [symbol("a"), True]},
        id=12345,
        group_id="g",
        subject="kept",
    )
    async with penstock.connect(url) as connection:
        for name in (first, second):
            await connection.declare_queue(name)

        def send() -> None:
            peer = BlockingConnection(broker_url)
            peer.create_sender(f"/queues/{first}").send(sent)
            peer.close()

        await asyncio.to_thread(send)
        async with connection.receiver(first) as receiver:
            delivery = await receiver.receive(10)
            assert delivery is not None
            await (await connection.publisher(second).forward(delivery))

        def receive() -> ProtonMessage:
            peer = BlockingConnection(broker_url)
            found = peer.create_receiver(f"/queues/{second}").receive(timeout=10)
            peer.close()
            return found

        found = await asyncio.to_thread(receive)
    names = ("body", "durable", "properties", "id", "group_id", "subject", "ttl", "priority", "delivery_count")
    assert {name: getattr(found, name) for name in names} == {name: getattr(sent, name) for name in names}
    assert found.annotations[symbol("x-opt-mine")] == [symbol("a"), True]


def test_blocking_publisher_forwards_a_message(broker_url: str) -> None:
    first, second = fresh(), fresh()
    with penstock.sync.connect(url_of(broker_url, "amqp091")) as connection:
        for name in (first, second):
            connection.declare_queue(name)
        connection.publisher(first).send(penstock.Message(b"x", app_id="shop"))
        with connection.receiver(first) as receiver:
            delivery = receiver.receive(10)
            assert delivery is not None
            connection.publisher(second).forward(delivery).wait(10)
            delivery.accept()
        with connection.receiver(second) as receiver:
            found = receiver.receive(10)
            assert found is not None
            assert (found.body, found.properties.app_id) == (b"x", "shop")
