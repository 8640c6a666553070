"""Federation with RabbitMQ: it is the upstream of Penstock, and Penstock is its upstream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from bench import processes
from bench.brokers import RABBITMQ, RabbitmqNode
from tests.support.brokers import eventually, serving
from tests.support.http_client import Web

BESIDE = RABBITMQ in os.environ.get("PENSTOCK_BESIDE", "").split()
PLUGINS = ("rabbitmq_federation", "rabbitmq_federation_management")

pytestmark = pytest.mark.skipif(not BESIDE, reason="set PENSTOCK_BESIDE=rabbitmq")


class Side:
    """One broker: its API, and a channel of it."""

    def __init__(self, url: str, http: str) -> None:
        self.url = url
        self.web = Web(http)
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel: BlockingChannel = self.connection.channel()

    def put(self, path: str, body: object) -> None:
        answer = self.web.ask("PUT", path, body)
        assert answer.status in (201, 204), answer.text

    def follow(self, other: Side, pattern: str, **value: object) -> None:
        """Make the other broker the upstream of queues and exchanges."""
        given = {"uri": other.url, **{key.replace("_", "-"): each for key, each in value.items()}}
        self.put("/parameters/federation-upstream/%2F/up", {"value": given})
        self.put("/policies/%2F/f", {"pattern": pattern, "definition": {"federation-upstream-set": "all"}})

    def unfollow(self) -> None:
        for path in ("/policies/%2F/f", "/parameters/federation-upstream/%2F/up"):
            assert self.web.ask("DELETE", path).status == 204

    def bound(self, exchange: str) -> list[dict[str, Any]]:
        rows = self.web.ask("GET", f"/exchanges/%2F/{exchange}/bindings/source")
        return [*rows.json] if rows.status == 200 else []

    def names(self, kind: str, start: str) -> list[str]:
        return [row["name"] for row in self.web.ask("GET", f"/{kind}/%2F").json if row["name"].startswith(start)]

    def get(self, queue: str) -> tuple[bytes, pika.BasicProperties] | None:
        _, properties, body = self.channel.basic_get(queue, auto_ack=True)
        return None if properties is None else (body, properties)

    def running(self, count: int) -> bool:
        links = self.web.ask("GET", "/federation-links").json
        return [link["status"] for link in links] == ["running"] * count


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    http = processes.free_port()
    node = RabbitmqNode(tmp_path_factory.mktemp(RABBITMQ), http, PLUGINS)
    process = node.launch()
    try:
        port = node.port(process)
        web = Web(f"http://127.0.0.1:{http}")
        eventually(web.answers, "the API of RabbitMQ")
        side = Side(f"amqp://guest:guest@127.0.0.1:{port}/%2F", f"http://127.0.0.1:{http}")
        yield side
        side.connection.close()
    finally:
        processes.stop(process)
        node.close()


@pytest.fixture(scope="module")
def penstock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with serving(tmp_path_factory.mktemp("penstock"), "--http", "127.0.0.1:0") as broker:
        side = Side(f"amqp://guest:guest@127.0.0.1:{broker.port}/%2F", broker.http)
        yield side
        side.connection.close()
        assert "Traceback" not in broker.log()


@pytest.fixture(params=["rabbitmq", "penstock"])
def sides(request: pytest.FixtureRequest, rabbitmq: Side, penstock: Side) -> tuple[Side, Side]:
    """The upstream, which the parameter names, and the broker that follows it."""
    return (rabbitmq, penstock) if request.param == "rabbitmq" else (penstock, rabbitmq)


def test_exchange_of_the_one_gets_messages_of_the_other(sides: tuple[Side, Side]) -> None:
    upstream, here = sides
    here.channel.exchange_declare("fed.x", "topic", durable=True)
    here.channel.queue_declare("here")
    here.channel.queue_bind("here", "fed.x", "k.#")
    here.follow(upstream, r"^fed\.", expires=60_000)
    rows = eventually(lambda: upstream.bound("fed.x"), "the binding at the upstream")
    assert [row["routing_key"] for row in rows] == ["k.#"]
    (place,) = rows[0]["arguments"]["x-bound-from"]
    assert (place["hops"], place["vhost"]) == (1, "/")
    here.channel.queue_bind("here", "fed.x", "later")
    eventually(lambda: len(upstream.bound("fed.x")) == 2, "the later binding")
    properties = pika.BasicProperties(headers={"h": 1}, message_id="m", delivery_mode=2)
    upstream.channel.basic_publish("fed.x", "k.1", b"1", properties)
    body, found = eventually(lambda: here.get("here"), "the message")
    assert (body, found.message_id, found.delivery_mode) == (b"1", "m", 2)
    (hop,) = found.headers.pop("x-received-from")
    assert found.headers == {"h": 1}
    assert (hop["exchange"], hop["vhost"], hop["redelivered"]) == ("fed.x", "/", False)
    assert "guest" not in hop["uri"]
    eventually(lambda: here.running(1), "the link")
    upstream.channel.basic_publish("fed.x", "k.2", b"2", pika.BasicProperties(headers={"x-received-from": [hop]}))
    upstream.channel.basic_publish("fed.x", "later", b"3")
    assert eventually(lambda: here.get("here"), "the message with hops left")[0] == b"3"
    here.unfollow()
    eventually(lambda: not upstream.names("queues", "federation: fed.x"), "the end of the upstream queue")
    assert upstream.names("exchanges", "federation: fed.x") == []
    for side in sides:
        side.channel.exchange_delete("fed.x")
        side.channel.queue_delete("here")


def test_queue_of_the_one_gets_messages_of_the_other_for_its_consumers(sides: tuple[Side, Side]) -> None:
    upstream, here = sides
    here.channel.queue_declare("fed.q", durable=True)
    here.follow(upstream, r"^fed\.q$")
    eventually(lambda: upstream.names("queues", "fed.q"), "the queue at the upstream")
    eventually(lambda: here.running(1), "the link")
    for number in range(100):
        upstream.channel.basic_publish("", "fed.q", b"%d" % number)
    got: list[tuple[bytes, pika.BasicProperties]] = []
    here.channel.basic_consume("fed.q", lambda channel, method, found, body: got.append((body, found)), True)

    def look() -> bool:
        here.connection.process_data_events(0.01)
        return len(got) >= 100

    eventually(look, "all messages")
    assert sorted(int(body) for body, _ in got) == [*range(100)]
    (hop,) = got[0][1].headers["x-received-from"]
    assert (hop["queue"], hop["visit-count"]) == ("fed.q", 1)
    assert got[0][1].headers["x-original-routing-key"] == "fed.q"
    here.unfollow()
    for side in sides:
        side.channel.queue_delete("fed.q")
