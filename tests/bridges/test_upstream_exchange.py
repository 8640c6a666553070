"""Declarations of a link at the upstream of an exchange, whatever an earlier life has left there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import penstock
from penstock.bridges.link_terms import LinkTerms, terms_of
from penstock.bridges.upstream_bindings import BOUND_FROM
from penstock.bridges.upstream_exchange import UpstreamExchange
from penstock.client.errors import ChannelClosed
from tests.support.brokers import BrokerProcess, serving, some_name

KEYS: list[tuple[str, dict[str, Any]]] = [("a", {}), ("b.#", {})]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("upstream")) as broker:
        yield broker


def terms_for(exchange: str, **value: object) -> LinkTerms:
    link = {
        "kind": "exchange", "resource": exchange, "upstream": exchange, "cluster": "far", "consumer_tag": "t",
        "type": "topic", "durable": True, "auto_delete": False, "arguments": {},
    }  # fmt: skip
    given = {"uri": "amqp://host", **{key.replace("_", "-"): each for key, each in value.items()}}
    return terms_of({"vhost": "eu", "run_as": "anna", "value": given, "link": link})


@asynccontextmanager
async def upstream(
    broker: BrokerProcess, terms: LinkTerms
) -> AsyncIterator[tuple[penstock.Connection, UpstreamExchange]]:
    async with penstock.connect(broker.url, protocol="amqp091") as connection:
        yield connection, UpstreamExchange(connection, terms)


async def bindings(connection: penstock.Connection, exchange: str) -> list[tuple[str, str]]:
    """Return the key and the destination of each binding of an exchange."""
    found = [row async for row in connection.list("bindings")]
    return sorted((row["routing_key"], row["destination"]) for row in found if row["source"] == exchange)


async def test_link_declares_exchange_queue_and_bindings(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with upstream(broker, terms_for(name, expires=60_000)) as (connection, link):
        await link.begin(KEYS)
        assert link.queue == f"federation: {name} -> far:eu:{name}"
        assert await bindings(connection, name) == [("a", f"{link.queue} A"), ("b.#", f"{link.queue} A")]
        await connection.publisher(exchange=name, routing_key="b.c").send(b"1")
        await connection.publisher(exchange=name, routing_key="a").send(b"2")
        async with connection.receiver(link.queue) as receiver:
            received = [await receiver.receive(), await receiver.receive()]
        assert [(each.body, each.routing_key) for each in received if each is not None] == [(b"1", "b.c"), (b"2", "a")]


async def test_bindings_follow_those_of_the_exchange(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with upstream(broker, terms_for(name)) as (connection, link):
        await link.begin(KEYS)
        await link.bind([("b.#", {}), ("c", {})])
        assert [key for key, _ in await bindings(connection, name)] == ["b.#", "c"]
        await link.bind([])
        assert await bindings(connection, name) == []
        await link.bind([("d", {BOUND_FROM: [{"cluster-name": "else", "vhost": "/", "exchange": "x", "hops": 1}]})])
        assert await bindings(connection, name) == []


async def test_next_life_forgets_bindings_that_have_gone_and_keeps_messages(broker: BrokerProcess) -> None:
    name = some_name("x")
    terms = terms_for(name)
    async with upstream(broker, terms) as (connection, link):
        await link.begin(KEYS)
        await connection.publisher(exchange=name, routing_key="a").send(b"1")
    for suffix in "BAB":
        async with upstream(broker, terms) as (connection, link):
            await link.begin([("c", {})])
            assert await bindings(connection, name) == [("c", f"{link.queue} {suffix}")]
            assert await bindings(connection, f"{link.queue} {suffix}") == [("", link.queue)]
    async with penstock.connect(broker.url, protocol="amqp091") as connection:
        await connection.publisher(exchange=name, routing_key="c").send(b"2")
        async with connection.receiver(link.queue) as receiver:
            received = [await receiver.receive(), await receiver.receive()]
    assert [each.body for each in received if each is not None] == [b"1", b"2"]


async def test_life_that_ended_between_its_exchanges_is_completed(broker: BrokerProcess) -> None:
    name = some_name("x")
    terms = terms_for(name)
    async with upstream(broker, terms) as (connection, link):
        await link.begin(KEYS)
        other = f"{link.queue} B"
        await connection.declare_exchange(other, "fanout", auto_delete=True, internal=True)
        await connection.bind(link.queue, other)
        await connection.bind_exchange(other, name, "z")
    async with upstream(broker, terms) as (connection, link):
        await link.begin([*KEYS, ("c", {})])
        found = await bindings(connection, name)
        assert [key for key, _ in found] == ["a", "b.#", "c"]
        assert {destination for _, destination in found} == {f"{link.queue} A"}


async def test_link_that_is_gone_leaves_nothing(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with upstream(broker, terms_for(name)) as (connection, link):
        await link.begin(KEYS)
        await link.delete()
        await link.delete()
        assert await bindings(connection, name) == []
        assert link.queue not in [row["name"] async for row in connection.list("queues")]
        assert f"{link.queue} A" not in [row["name"] async for row in connection.list("exchanges")]


async def test_exchange_that_is_there_is_used_as_it_is(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with upstream(broker, terms_for(name)) as (connection, link):
        await connection.declare_exchange(name, "fanout", durable=False)
        await link.begin(KEYS)
        assert len(await bindings(connection, name)) == 2


async def test_queue_with_other_arguments_at_the_upstream_is_told(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with upstream(broker, terms_for(name)) as (_, link):
        await link.begin(KEYS)
    async with upstream(broker, terms_for(name, message_ttl=5)) as (_, link):
        with pytest.raises(ChannelClosed, match="message-ttl"):
            await link.begin(KEYS)


async def test_check_restores_bindings_of_an_exchange_that_was_declared_again(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with upstream(broker, terms_for(name)) as (connection, link):
        await link.begin(KEYS)
        await link.check()
        assert len(await bindings(connection, name)) == link.bound == 2
        await connection.delete_exchange(name)
        with pytest.raises(ChannelClosed, match=f"no exchange '{name}'"):
            await link.check()
        await connection.declare_exchange(name, "topic")
        assert await bindings(connection, name) == []
        await link.check()
        assert [key for key, _ in await bindings(connection, name)] == ["a", "b.#"]
