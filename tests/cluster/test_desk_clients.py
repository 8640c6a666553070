"""Client libraries whose logins a desk passes on to shards in other processes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import aio_pika
import amqpstorm
import kombu
import pika
import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection

from penstock.client.errors import LoginRefused
from penstock.sync import connect
from tests.support.brokers import PATIENCE, settings_file, some_name
from tests.support.desk_node import DeskNode, desk_node

pytestmark = pytest.mark.clients

BODY = b"x" * 30_000
VHOSTS = ["/", "t1"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskNode]:
    """A desk with two shards and the users guest and ada."""
    folder = tmp_path_factory.mktemp("desk")
    options = settings_file(folder, '[users]\nada = "lovelace"\nguest = "guest"\n')
    with desk_node(folder, *options) as node:
        yield node
        node.await_forgotten()


@pytest.fixture
def name() -> str:
    return some_name("q")


def path(vhost: str) -> str:
    return "/%2F" if vhost == "/" else f"/{vhost}"


@pytest.mark.parametrize("vhost", VHOSTS)
def test_pika_publishes_with_confirms_and_gets(node: DeskNode, vhost: str, name: str) -> None:
    credentials = pika.PlainCredentials("ada", "lovelace")
    parameters = pika.ConnectionParameters(
        node.host, node.port, vhost, credentials, frame_max=8192, heartbeat=7, client_properties={"x": "y"}
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(name, exclusive=True)
        channel.basic_publish("", name, BODY)
        assert channel.basic_get(name, auto_ack=True)[2] == BODY
        connection.process_data_events(0)


def test_pika_with_a_wrong_password_or_vhost_is_told_so(node: DeskNode) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="Login was refused"):
        pika.BlockingConnection(pika.URLParameters(node.url("t1", password="wrong")))
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost nowhere not found"):
        pika.BlockingConnection(pika.URLParameters(node.url("nowhere")))


@pytest.mark.parametrize("vhost", VHOSTS)
async def test_aio_pika_publishes_and_consumes(node: DeskNode, vhost: str, name: str) -> None:
    connection = await aio_pika.connect(f"amqp://guest:guest@{node.host}:{node.port}{path(vhost)}")
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(name, exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(BODY), name)
        message = await queue.get(timeout=PATIENCE)
        assert message is not None
        assert message.body == BODY
        await message.ack()


@pytest.mark.parametrize("vhost", VHOSTS)
def test_kombu_publishes_and_gets(node: DeskNode, vhost: str, name: str) -> None:
    url = f"amqp://guest:guest@{node.host}:{node.port}{'//' if vhost == '/' else path(vhost)}"
    with kombu.Connection(url, heartbeat=30) as connection, connection.SimpleBuffer(name) as queue:
        queue.put({"a": 1})
        message = queue.get(timeout=PATIENCE)
        assert message.payload == {"a": 1}
        message.ack()


@pytest.mark.parametrize("vhost", VHOSTS)
def test_amqpstorm_publishes_and_gets(node: DeskNode, vhost: str, name: str) -> None:
    storm = amqpstorm.Connection(node.host, "guest", "guest", port=node.port, virtual_host=vhost)
    with storm as connection, connection.channel() as channel:
        channel.confirm_deliveries()
        channel.queue.declare(name, exclusive=True)
        assert channel.basic.publish(BODY, name)
        message = channel.basic.get(name)
        assert message is not None
        message.ack()


@pytest.mark.skipif(shutil.which("amqp-publish") is None, reason="the tools of librabbitmq are not here")
def test_librabbitmq_publishes_and_gets(node: DeskNode, name: str) -> None:
    def tool(program: str, *words: str, said: bytes = b"") -> bytes:
        done = subprocess.run(
            [program, "-s", f"{node.host}:{node.port}", "--vhost", "t1", *words], input=said, capture_output=True,
            timeout=PATIENCE, check=True,
        )  # fmt: skip
        return done.stdout

    tool("amqp-declare-queue", "-q", name)
    tool("amqp-publish", "-r", name, said=BODY)
    assert tool("amqp-get", "-q", name) == BODY
    tool("amqp-delete-queue", "-q", name)


@pytest.mark.parametrize("mechanism", ["PLAIN", "ANONYMOUS"])
@pytest.mark.parametrize("host", ["vhost:t1", "t1", "vhost:/", "mq.example.com"])
def test_proton_sends_and_receives(node: DeskNode, name: str, mechanism: str, host: str) -> None:
    connection = BlockingConnection(
        f"amqp://guest:guest@{node.host}:{node.port}", virtual_host=host, allowed_mechs=mechanism,
        allow_insecure_mechs=True, heartbeat=5, timeout=PATIENCE,
    )  # fmt: skip
    vhost = "t1" if "t1" in host else "/"
    with connect(node.url() + path(vhost), protocol="amqp091") as owner:
        owner.declare_queue(name)
        sender = connection.create_sender(f"/queues/{name}")
        sender.send(Message(body="hello"))
        receiver = connection.create_receiver(f"/queues/{name}", credit=1)
        assert receiver.receive(timeout=PATIENCE).body == "hello"
        receiver.accept()
        owner.delete_queue(name)
    connection.close()


def test_proton_with_an_unknown_virtual_host_is_told_so(node: DeskNode) -> None:
    with pytest.raises(ConnectionException, match="vhost nowhere not found"):
        BlockingConnection(
            f"amqp://guest:guest@{node.host}:{node.port}", virtual_host="vhost:nowhere", allowed_mechs="PLAIN",
            allow_insecure_mechs=True, timeout=PATIENCE,
        )  # fmt: skip


@pytest.mark.parametrize("vhost", VHOSTS)
@pytest.mark.parametrize(
    "options",
    [
        {"protocol": "amqp091"},
        {"protocol": "amqp10", "mechanism": "PLAIN"},
        {"protocol": "amqp10", "mechanism": "SCRAM-SHA-256"},
    ],
    ids=["0-9-1", "1.0", "scram"],
)
def test_penstock_client_publishes_with_its_own_rate_and_receives(
    node: DeskNode, vhost: str, options: dict[str, Any], name: str
) -> None:
    url = f"amqp://ada:lovelace@{node.host}:{node.port}{path(vhost)}"
    with connect(url, name="web-1", max_send_rate=1000, **options) as client:
        client.declare_queue(name)
        with client.publisher(name) as publisher, client.receiver(name) as receiver:
            publisher.send(BODY)
            delivery = receiver.receive(PATIENCE)
            assert delivery is not None
            assert delivery.body == BODY
            delivery.accept()
        with connect(url) as onlooker:
            rows = onlooker.request("list", kind="connections")["items"]
        (row,) = [row for row in rows if row["user_provided_name"] == "web-1"]
        assert (row["user"], row["vhost"], row["peer_host"]) == ("ada", vhost, "127.0.0.1")
        client.delete_queue(name)


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_penstock_client_is_refused_with_a_wrong_password(node: DeskNode, protocol: str) -> None:
    with pytest.raises(LoginRefused, match="ada"):
        connect(f"amqp://ada:wrong@{node.host}:{node.port}/t1", protocol=protocol)
