"""Links of federation between virtual hosts: messages go where they are bound or taken, and rings end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import penstock
from penstock.bridges.federation_link import CHECK_S, STOCK, FederationLink, OwnUpstream, link_of
from penstock.bridges.link_terms import terms_of
from penstock.bridges.state import HELD, State
from penstock.client.options import Options
from tests.support.brokers import PATIENCE, BrokerProcess, serving, some_name

VHOSTS = ("a", "b", "c")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("links")) as broker:
        for vhost in VHOSTS:
            broker.command("vhosts", "declare", vhost)
        yield broker


def at(broker: BrokerProcess, vhost: str) -> str:
    return f"{broker.url.rstrip('/')}/{vhost}"


@asynccontextmanager
async def in_vhost(broker: BrokerProcess, vhost: str) -> AsyncIterator[penstock.Connection]:
    async with penstock.connect(at(broker, vhost), protocol="amqp091") as connection:
        yield connection


async def cluster_of(broker: BrokerProcess) -> str:
    async with in_vhost(broker, "a") as connection:
        return str(connection.server_properties["cluster_name"])


async def link_between(
    broker: BrokerProcess, old: str, new: str, kind: str, name: str, upstream: str = "", **value: object
) -> FederationLink:
    """Return a link from a virtual host to another."""
    link = {
        "kind": kind, "resource": name, "upstream": upstream or name, "cluster": await cluster_of(broker),
        "consumer_tag": "t", "durable": True, "auto_delete": False, "arguments": {},
    }  # fmt: skip
    if kind == "exchange":
        link["type"] = "topic"
    given = {"uri": at(broker, old), **{key.replace("_", "-"): each for key, each in value.items()}}
    terms = terms_of({"vhost": new, "run_as": "guest", "value": given, "link": link})
    options = [Options(at(broker, vhost), {"protocol": "amqp091", "reconnect": False}) for vhost in (old, new)]
    return link_of(terms, at(broker, old), options[0], at(broker, new), options[1], State())


@asynccontextmanager
async def running(*links: FederationLink) -> AsyncIterator[None]:
    """Run links until the block ends."""
    tasks = [asyncio.create_task(link.run()) for link in links]
    try:
        yield
    finally:
        for link in links:
            link.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)


async def eventually(look: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Look until a condition is true."""
    async with asyncio.timeout(PATIENCE):
        while not await look():  # noqa: ASYNC110 - the condition is the state of a broker, which has no event.
            await asyncio.sleep(0.01)


async def bound(connection: penstock.Connection, exchange: str) -> list[str]:
    """Return the keys with which an exchange is bound."""
    return sorted([row["routing_key"] async for row in connection.list("bindings") if row["source"] == exchange])


async def depth(connection: penstock.Connection, queue: str) -> int:
    rows = [row async for row in connection.list("queues") if row["name"] == queue]
    return int(rows[0]["messages"])


async def taken(connection: penstock.Connection, queue: str, count: int) -> list[Any]:
    """Take so many messages from a queue, and show that there is no other."""
    messages = []
    async with connection.receiver(queue) as receiver:
        for _ in range(count):
            message = await receiver.receive(PATIENCE)
            assert message is not None
            message.accept()
            messages.append(message)
    assert await depth(connection, queue) == 0
    return messages


@asynccontextmanager
async def exchange(connection: penstock.Connection, name: str, *keys: str) -> AsyncIterator[str]:
    """An exchange, and a queue that is bound with these keys."""
    await connection.declare_exchange(name, "topic")
    queue = await connection.declare_queue(some_name("q"))
    for key in keys:
        await connection.bind(queue, name, key)
    yield queue


async def test_message_of_an_upstream_exchange_arrives_with_its_place(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with (
        in_vhost(broker, "a") as old,
        in_vhost(broker, "b") as new,
        exchange(new, name, "k.*") as queue,
        running(await link_between(broker, "a", "b", "exchange", name)),
    ):
        await eventually(lambda: is_bound(old, name, ["k.*"]))
        publisher = old.publisher(exchange=name, routing_key="k.1")
        message = penstock.Message(b"1", headers={"h": 1, "CC": ["k.2"]}, user_id="guest", priority=3)
        await publisher.send(message)
        await old.publisher(exchange=name, routing_key="other", mandatory=False).send(b"2")
        (found,) = await taken(new, queue, 1)
    assert (found.body, found.exchange, found.routing_key) == (b"1", name, "k.1")
    assert (found.properties.user_id, found.properties.priority) == (None, 3)
    place = {"uri": f"amqp://127.0.0.1:{broker.port}/a", "exchange": name, "redelivered": False}
    place |= {"cluster-name": await cluster_of(broker), "vhost": "a"}
    assert found.headers == {"h": 1, "CC": ["k.2"], "x-received-from": [place]}


async def is_bound(connection: penstock.Connection, name: str, keys: list[str]) -> bool:
    try:
        return await bound(connection, name) == keys
    except penstock.ControlError:
        return False


async def test_bindings_that_come_and_go_are_repeated_upstream(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with (
        in_vhost(broker, "a") as old,
        in_vhost(broker, "b") as new,
        exchange(new, name) as queue,
        running(await link_between(broker, "a", "b", "exchange", name)),
    ):
        for keys in (["k"], ["j", "k"], ["j"], []):
            present = await bound(new, name)
            for key in keys:
                if key not in present:
                    await new.bind(queue, name, key)
            for key in present:
                if key not in keys:
                    await new.unbind(queue, name, key)
            await eventually(lambda keys=keys: is_bound(old, name, keys))  # type: ignore[misc]


async def test_bindings_of_an_upstream_that_is_declared_again_come_back(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with in_vhost(broker, "a") as old, in_vhost(broker, "b") as new, exchange(new, name, "k"):
        link = await link_between(broker, "a", "b", "exchange", name)
        async with running(link):
            await eventually(lambda: is_bound(old, name, ["k"]))
            await old.delete_exchange(name)
            await old.declare_exchange(name, "topic")
            assert await bound(old, name) == []
            link.sides.check_s = 0.0
            link.look_again()
            await eventually(lambda: is_bound(old, name, ["k"]))
            link.sides.check_s = CHECK_S


async def test_messages_collect_upstream_while_the_link_is_away(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with in_vhost(broker, "a") as old, in_vhost(broker, "b") as new, exchange(new, name, "#") as queue:
        async with running(await link_between(broker, "a", "b", "exchange", name)):
            await eventually(lambda: is_bound(old, name, ["#"]))
        await old.publisher(exchange=name, routing_key="k").send_many(b"%d" % number for number in range(100))
        async with running(await link_between(broker, "a", "b", "exchange", name)):
            found = await taken(new, queue, 100)
    assert [each.body for each in found] == [b"%d" % number for number in range(100)]


async def test_link_that_is_gone_deletes_the_upstream_queue_unless_never(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with in_vhost(broker, "a") as old, in_vhost(broker, "b") as new, exchange(new, name, "#"):
        for mode, is_gone, kept in (("never", True, True), ("default", False, True), ("default", True, False)):
            link = await link_between(broker, "a", "b", "exchange", name, resource_cleanup_mode=mode)
            async with running(link):
                await eventually(lambda: is_bound(old, name, ["#"]))
                link.sides.is_gone = is_gone
            names = [row["name"] async for row in old.list("queues")]
            assert any(each.startswith(f"federation: {name} ->") for each in names) == kept


async def test_max_hops_over_three_virtual_hosts_of_one_broker(broker: BrokerProcess) -> None:
    """Scenario: a message goes over as many links as max-hops says, and bindings go as far back as messages come."""
    for hops, is_there in ((1, False), (2, True)):
        name = some_name("x")
        async with (
            in_vhost(broker, "a") as a,
            in_vhost(broker, "b") as b,
            in_vhost(broker, "c") as c,
            exchange(b, name, "k") as in_b,
            exchange(c, name, "k", "only.c") as in_c,
        ):
            first = await link_between(broker, "a", "b", "exchange", name, max_hops=hops)
            second = await link_between(broker, "b", "c", "exchange", name, max_hops=hops)
            async with running(first, second):
                upstream = ["k", "k", "only.c"] if is_there else ["k"]
                await eventually(lambda name=name, a=a, keys=upstream: is_bound(a, name, keys))  # type: ignore[misc]
                await eventually(lambda name=name, b=b: is_bound(b, name, ["k", "k", "only.c"]))  # type: ignore[misc]
                await a.publisher(exchange=name, routing_key="k").send(b"from a")
                await b.publisher(exchange=name, routing_key="k").send(b"from b")
                of_b = await taken(b, in_b, 2)
                of_c = await taken(c, in_c, 2 if is_there else 1)
        assert sorted(each.body for each in of_b) == [b"from a", b"from b"]
        assert sorted(each.body for each in of_c) == ([b"from a", b"from b"] if is_there else [b"from b"])
        for each in of_c:
            places = [place["vhost"] for place in each.headers["x-received-from"]]
            assert places == (["b", "a"] if each.body == b"from a" else ["b"])


async def test_ring_of_exchanges_ends(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with (
        in_vhost(broker, "a") as a,
        in_vhost(broker, "b") as b,
        in_vhost(broker, "c") as c,
        exchange(a, name, "k") as in_a,
        exchange(b, name, "k") as in_b,
        exchange(c, name, "k") as in_c,
    ):
        hosts = ((a, in_a), (b, in_b), (c, in_c))
        links = [
            await link_between(broker, old, new, "exchange", name, max_hops=9)
            for old, new in (("a", "b"), ("b", "c"), ("c", "a"))
        ]
        async with running(*links):
            for connection, _ in hosts:
                await eventually(lambda connection=connection: is_bound(connection, name, ["k"] * 3))  # type: ignore[misc]
            await a.publisher(exchange=name, routing_key="k").send(b"1")
            for connection, queue in hosts:
                assert [each.body for each in await taken(connection, queue, 1)] == [b"1"]
            await b.unbind(in_b, name, "k")
            for connection, _ in hosts:
                await eventually(lambda connection=connection: is_bound(connection, name, ["k"] * 2))  # type: ignore[misc]
            await eventually(lambda: are_settled(links, 2))


async def are_settled(links: list[FederationLink], carried: int) -> bool:
    return sum(link.state.carried for link in links) == carried and not any(link.underway for link in links)


async def test_exchange_that_would_be_its_own_upstream_is_refused(broker: BrokerProcess) -> None:
    link = await link_between(broker, "a", "a", "exchange", "amq.topic")
    with pytest.raises(OwnUpstream, match=r"exchange 'amq\.topic' in vhost 'a' of .* would be its own upstream"):
        await link.run()


async def test_message_stays_at_the_upstream_queue_until_a_consumer_waits(broker: BrokerProcess) -> None:
    name = some_name("q")
    async with in_vhost(broker, "a") as old, in_vhost(broker, "b") as new:
        await new.declare_queue(name)
        async with running(await link_between(broker, "a", "b", "queue", name)):
            await eventually(lambda: is_declared(old, name))
            await old.publisher(name).send(penstock.Message(b"1", headers={"h": 1}))
            assert await depth(old, name) == 1
            (found,) = await taken(new, name, 1)
            await eventually(lambda: has_ready(old, name, 0))
    place = {"uri": f"amqp://127.0.0.1:{broker.port}/a", "queue": name, "redelivered": False, "visit-count": 1}
    assert found.headers == {
        "h": 1, "x-original-exchange": "", "x-original-routing-key": name, "x-received-from": [place],
    }  # fmt: skip


async def is_declared(connection: penstock.Connection, queue: str) -> bool:
    return queue in [row["name"] async for row in connection.list("queues")]


async def test_queue_gets_no_more_than_its_consumers_wait_for(broker: BrokerProcess) -> None:
    name = some_name("q")
    async with in_vhost(broker, "a") as old, in_vhost(broker, "b") as new:
        await new.declare_queue(name)
        await old.declare_queue(name)
        await old.publisher(name).send_many(b"%d" % number for number in range(10 * STOCK))
        link = await link_between(broker, "a", "b", "queue", name)
        async with running(link), new.receiver(name, prefetch=5, consumerWindowSize=-1) as receiver:
            first = await receiver.receive(PATIENCE)
            assert first is not None
            await eventually(lambda: are_settled([link], STOCK))
            async with in_vhost(broker, "a") as looking:
                await eventually(lambda: has_ready(looking, name, 9 * STOCK))
            received = [first]
            while len(received) < 10 * STOCK:
                received[-1].accept()
                message = await receiver.receive(PATIENCE)
                assert message is not None
                received.append(message)
            received[-1].accept()
    assert sorted(int(each.body) for each in received) == [*range(10 * STOCK)]


async def test_link_of_a_queue_has_few_bytes_on_their_way(broker: BrokerProcess) -> None:
    """A window of 1 MiB and one message: the rest of 40 large messages stays at the upstream."""
    name = some_name("q")
    async with in_vhost(broker, "a") as old, in_vhost(broker, "b") as new:
        await new.declare_queue(name, capacity_bytes=300_000)
        await old.declare_queue(name)
        await old.publisher(name).send_many(b"%02d" % number * 100_000 for number in range(40))
        link = await link_between(broker, "a", "b", "queue", name)
        async with running(link), new.receiver(name, prefetch=1) as receiver:
            first = await receiver.receive(PATIENCE)
            assert first is not None
            await eventually(lambda: is_state(link, HELD))
            rows = [row async for row in old.list("queues") if row["name"] == name]
            assert rows[0]["messages_unacknowledged"] <= 8
            first.accept()
            bodies = [first.body]
            while len(bodies) < 40:
                message = await receiver.receive(PATIENCE)
                assert message is not None
                message.accept()
                bodies.append(message.body)
    assert sorted(body[:2] for body in bodies) == [b"%02d" % number for number in range(40)]


async def has_ready(connection: penstock.Connection, queue: str, count: int) -> bool:
    rows = [row async for row in connection.list("queues") if row["name"] == queue]
    return bool(rows[0]["messages_ready"] == count)


async def test_own_consumer_of_the_upstream_comes_before_the_link(broker: BrokerProcess) -> None:
    name = some_name("q")
    async with in_vhost(broker, "a") as old, in_vhost(broker, "b") as new:
        await new.declare_queue(name)
        await old.declare_queue(name)
        link = await link_between(broker, "a", "b", "queue", name)
        async with running(link), new.receiver(name) as far:
            await eventually(lambda: has_consumers(old, name, 1))
            async with old.receiver(name) as near:
                await old.publisher(name).send_many(b"%d" % number for number in range(50))
                for _ in range(50):
                    message = await near.receive(PATIENCE)
                    assert message is not None
                    message.accept()
            assert far.receive_nowait() is None
            assert link.state.carried == 0


async def has_consumers(connection: penstock.Connection, queue: str, count: int) -> bool:
    rows = [row async for row in connection.list("queues") if row["name"] == queue]
    return bool(rows[0]["consumers"] == count)


async def test_queues_that_are_upstreams_of_each_other_move_messages_to_consumers(broker: BrokerProcess) -> None:
    name = some_name("q")
    async with in_vhost(broker, "a") as a, in_vhost(broker, "b") as b:
        for connection in (a, b):
            await connection.declare_queue(name)
        links = [await link_between(broker, old, new, "queue", name) for old, new in (("a", "b"), ("b", "a"))]
        async with running(*links):
            await a.publisher(name).send_many(b"%d" % number for number in range(100))
            found = [each.body for each in await taken(b, name, 100)]
            await b.publisher(name).send(b"back")
            (back,) = await taken(a, name, 1)
    assert found == [b"%d" % number for number in range(100)]
    assert back.body == b"back"


async def test_full_queue_holds_its_link_and_loses_nothing(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with in_vhost(broker, "a") as old, in_vhost(broker, "b") as new:
        await new.declare_exchange(name, "topic")
        queue = await new.declare_queue(some_name("q"), capacity_messages=50)
        await new.bind(queue, name, "#")
        link = await link_between(broker, "a", "b", "exchange", name, prefetch_count=100)
        async with running(link):
            await eventually(lambda: is_bound(old, name, ["#"]))
            await old.publisher(exchange=name, routing_key="k").send_many(b"%d" % number for number in range(300))
            await eventually(lambda: is_state(link, HELD))
            assert await depth(new, queue) <= 50
            await new.bind(queue, name, "another.key")
            await eventually(lambda: is_bound(old, name, ["#", "another.key"]))
            found = await taken(new, queue, 300)
    assert [each.body for each in found] == [b"%d" % number for number in range(300)]


async def is_state(link: FederationLink, name: str) -> bool:
    return link.state.name == name


async def test_trusted_user_is_kept_if_it_is_that_of_the_link(broker: BrokerProcess) -> None:
    name = some_name("x")
    async with (
        in_vhost(broker, "a") as old,
        in_vhost(broker, "b") as new,
        exchange(new, name, "#") as queue,
        running(await link_between(broker, "a", "b", "exchange", name, trust_user_id=True)),
    ):
        await eventually(lambda: is_bound(old, name, ["#"]))
        await old.publisher(exchange=name, routing_key="k").send(penstock.Message(b"1", user_id="guest"))
        (found,) = await taken(new, queue, 1)
    assert found.properties.user_id == "guest"
