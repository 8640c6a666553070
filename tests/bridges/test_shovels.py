"""Shovels: the keys of RabbitMQ's definitions, between queues and exchanges of brokers of both protocols."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import penstock
from penstock.bridges.shovels import place_of, plain_uri
from penstock.client.aio import Connection
from tests.support.bridge_house import CLUSTER, BridgeHouse, emptied, filled, house, seen
from tests.support.brokers import PATIENCE


@pytest.fixture
async def here() -> AsyncIterator[BridgeHouse]:
    async with house() as found:
        yield found


@pytest.fixture
async def there() -> AsyncIterator[BridgeHouse]:
    async with house() as found:
        yield found


def shovel(here: BridgeHouse, there: BridgeHouse, **keys: Any) -> dict[str, Any]:
    """Return the spec of a shovel from here to there; `_` in a key stands for `-`."""
    given = {name.replace("_", "-"): value for name, value in keys.items()}
    return here.spec("shovel", {"src-uri": "amqp://", "dest-uri": there.url, "reconnect-delay": 0.05, **given})


async def messages(url: str, queue: str, count: int) -> list[tuple[str, dict[str, object], bytes]]:
    """Return routing key, properties and body of so many messages of a queue."""
    found = []
    async with penstock.connect(url, protocol="amqp091") as connection, connection.receiver(queue) as receiver:
        for _ in range(count):
            delivery = await receiver.receive(PATIENCE)
            assert delivery is not None
            found.append((delivery.routing_key, delivery.properties.as_dict(), delivery.body))
            delivery.accept()
    return found


async def test_shovel_declares_missing_queues_and_keeps_the_order(here: BridgeHouse, there: BridgeHouse) -> None:
    arguments = {"x-max-length": 5_000}
    async with here.running(shovel(here, there, src_queue="a", dest_queue="b", dest_queue_args=arguments)) as bridge:
        await seen(lambda: here.has("a") and there.has("b"))
        await filled(here.url, "a", 300)
        await seen(lambda: bridge.last["carried"] == 300)
    queue = there.broker.driver.broker.vhosts["/"].queues["b"]
    assert (queue.durable, queue.arguments) == (True, arguments)
    assert await emptied(there.url, "b") == list(range(300))
    assert bridge.last["delivery"] == "at least once"


async def test_predeclared_queue_is_awaited_and_not_declared(here: BridgeHouse, there: BridgeHouse) -> None:
    spec = shovel(here, there, src_queue="a", src_predeclared=True, dest_queue="b", dest_predeclared=True)
    await filled(here.url, "a", 1)
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["state"] == "away")
        assert "no queue 'b'" in bridge.last["reason"]
        assert "; tried again in 0." in bridge.last["reason"]
        assert not there.has("b")
        await filled(there.url, "b", 0)
        await seen(lambda: bridge.last["carried"] == 1)


async def test_shovel_of_an_exchange_binds_a_queue_of_its_own(here: BridgeHouse, there: BridgeHouse) -> None:
    spec = shovel(here, there, src_exchange="amq.topic", src_exchange_key="eu.#", dest_queue="b")
    async with here.running(spec) as bridge, penstock.connect(here.url) as connection:
        await seen(lambda: len(here.broker.driver.broker.vhosts["/"].queues) == 1)
        publisher = connection.publisher(exchange="amq.topic", mandatory=False)

        async def moved() -> None:
            while bridge.last["carried"] == 0:
                await publisher.send(penstock.Message(b"1", routing_key="eu.paris"))

        await asyncio.wait_for(moved(), PATIENCE)
    assert not [name for name in here.broker.driver.broker.vhosts["/"].queues if name != "b"]


async def test_exchange_and_key_of_the_target_or_of_each_message(here: BridgeHouse, there: BridgeHouse) -> None:
    for house_, queue, key in ((here, "a", "#"), (there, "kept", "old.#"), (there, "set", "new")):
        async with penstock.connect(house_.url) as connection:
            await connection.declare_queue(queue)
            await connection.bind(queue, "amq.topic", key)
    async with penstock.connect(here.url) as connection:
        await connection.publisher(exchange="amq.topic").send(penstock.Message(b"1", routing_key="old.key"))
    async with here.running(shovel(here, there, src_queue="a")) as bridge:  # It keeps both.
        await seen(lambda: bridge.last["carried"] == 1)
    async with penstock.connect(here.url) as connection:
        await connection.publisher(exchange="amq.topic").send(penstock.Message(b"2", routing_key="old.key"))
    spec = shovel(here, there, src_queue="a", dest_exchange="amq.topic", dest_exchange_key="new")
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["carried"] == 1)
    assert [(key, body) for key, _, body in await messages(there.url, "kept", 1)] == [("old.key", b"1")]
    assert [(key, body) for key, _, body in await messages(there.url, "set", 1)] == [("new", b"2")]


async def test_shovelled_messages_have_the_properties_and_headers_asked_for(
    here: BridgeHouse, there: BridgeHouse
) -> None:
    await filled(here.url, "a", 1)
    spec = shovel(
        here, there, src_queue="a", dest_queue="b", dest_add_forward_headers=True, dest_add_timestamp_header=True,
        dest_publish_properties={"content_type": "text/plain", "delivery_mode": 2, "headers": {"no": 1}},
    )  # fmt: skip
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["carried"] == 1)
    ((_, properties, body),) = await messages(there.url, "b", 1)
    assert (body, properties["content_type"], properties["delivery_mode"]) == (b"0", "text/plain", 2)
    headers: Any = properties["headers"]
    assert isinstance(headers["x-shovelled-timestamp"], int)
    assert headers["x-shovelled"] == [
        {
            "shovelled-by": CLUSTER, "shovel-type": "dynamic", "shovel-name": "test", "shovel-vhost": "/",
            "src-uri": "amqp://", "dest-uri": plain_uri(there.url), "src-queue": "a", "dest-queue": "b",
        }
    ]  # fmt: skip
    assert "guest" not in str(headers)


@pytest.mark.parametrize("keys", [{"src_delete_after": 3}, {"delete_after": 3}, {"src_delete_after": "queue-length"}])
async def test_shovel_ends_after_a_number_of_messages(
    here: BridgeHouse, there: BridgeHouse, keys: dict[str, Any]
) -> None:
    await filled(here.url, "a", 3)
    spec = shovel(here, there, src_queue="a", dest_queue="b", **keys)
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["state"] == "ended")
        await filled(here.url, "a", 2, 3)
        assert (bridge.last["carried"], here.depth("a"), there.depth("b")) == (3, 2, 3)
    assert await emptied(there.url, "b") == [0, 1, 2]


async def test_shovel_of_the_length_of_an_empty_queue_ends_at_once(here: BridgeHouse, there: BridgeHouse) -> None:
    spec = shovel(here, there, src_queue="a", dest_queue="b", src_delete_after="queue-length")
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["state"] == "ended")
        assert bridge.last["carried"] == 0


@pytest.mark.parametrize("mode", ["on-publish", "no-ack"])
async def test_message_leaves_its_queue_unconfirmed_if_the_mode_says_so(
    here: BridgeHouse, there: BridgeHouse, mode: str
) -> None:
    await filled(here.url, "a", 5)
    async with penstock.connect(there.url) as connection:
        await connection.declare_queue("b", capacity_messages=1, overflow="reject")
    async with here.running(shovel(here, there, src_queue="a", dest_queue="b", ack_mode=mode)) as bridge:
        await seen(lambda: bridge.last["refused"] > 0 and here.depth("a") == 0)
    assert here.depth("a") == 0


async def test_shovel_over_amqp_1_0_takes_addresses(here: BridgeHouse, there: BridgeHouse) -> None:
    await filled(here.url, "a", 3)
    async with penstock.connect(there.url) as connection:
        await connection.declare_queue("b")
        await connection.bind("b", "amq.direct", "key")
    spec = shovel(
        here, there, src_protocol="amqp10", src_address="a", dest_protocol="amqp10",
        dest_address="/exchanges/amq.direct/key", dest_add_forward_headers=True, dest_add_timestamp_header=True,
    )  # fmt: skip
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["carried"] == 3)
    ((_, properties, _), *_) = await messages(there.url, "b", 3)
    assert properties["headers"] == {"shovelled-by": CLUSTER, "shovel-type": "dynamic", "shovel-name": "test"}
    assert properties["timestamp"]


async def test_address_of_rabbitmq_is_a_place_at_penstock(here: BridgeHouse) -> None:
    async with Connection(penstock.client.options.Options(here.url, {})) as connection:
        assert place_of("", "/queues/a%2Fb", connection).queue == "a/b"
        assert place_of("", "/amq/queue/a", connection).queue == "a"
        assert place_of("", "plain", connection).queue == "plain"
        end = place_of("", "/exchange/log", connection)
        assert (end.exchange, end.key) == ("log", None)


async def test_uris_of_a_list_are_tried_in_turn(here: BridgeHouse, there: BridgeHouse) -> None:
    await filled(here.url, "a", 1)
    spec = shovel(here, there, src_queue="a", dest_queue="b")
    spec["value"]["dest-uri"] = ["amqp://127.0.0.1:1", there.url]
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["carried"] == 1)
    assert bridge.states[0] == "away"


@pytest.mark.parametrize(
    ("keys", "rule"),
    [
        ({"src_queue": "a", "dest_protocol": "amqp10"}, "the target has no address"),
        ({}, "the source names no queue and no exchange"),
        ({"src_queue": "a", "src_uri": []}, "the source has no URI"),
    ],
)
async def test_definition_that_cannot_be_used_is_refused_and_not_tried(
    here: BridgeHouse, there: BridgeHouse, keys: dict[str, Any], rule: str
) -> None:
    async with here.running(shovel(here, there, **keys)) as bridge:
        await seen(lambda: bridge.last["state"] == "refused")
        assert bridge.last["reason"] == f"the definition cannot be used: {rule}"
    assert bridge.dialled == 0
