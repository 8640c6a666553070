"""Node of several shards behind one port: clients reach the shard of their virtual host, which may die meanwhile."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pika
import pytest
from pika.exceptions import AMQPError, ChannelClosedByBroker, ProbableAccessDeniedError, ProbableAuthenticationError
from proton import Message
from proton.utils import BlockingConnection as ProtonConnection

import penstock
from penstock.cluster.packet_channel import PacketChannel
from penstock.cluster.parent import Parent
from penstock.cluster.shard_watch import Patience
from penstock.cluster.zygote import Zygote
from penstock.errors import StartError
from penstock.server.shard import Allowance
from penstock.settings.config import Settings
from penstock.sync import Connection, connect
from tests.support.brokers import PATIENCE, eventually, serving
from tests.support.told_program import ToldProgram


class Node(ToldProgram):
    """The program tests/support/cluster_node.py."""

    def __init__(self, data: Path, shards: int = 2, **patience: object) -> None:
        super().__init__("cluster_node", str(data), str(shards), json.dumps(patience))
        self.data = data
        self.port = 0
        self.inside: dict[str, str] = {}
        self.refusal = ""

    def begin(self) -> Node:
        """Wait until the node listens."""
        row = self.await_row(port=None)
        self.port = row["port"]
        self.inside = row["inside"]
        return self

    def do(self, **order: object) -> dict[str, Any]:
        """Give an order; return the state after it."""
        self.tell(**order)
        return self.await_row(done=order)

    def state(self, shard: str) -> dict[str, Any]:
        found: dict[str, Any] = self.do(look=True)["state"][shard]
        return found

    def await_state(self, shard: str, state: str) -> dict[str, Any]:
        return eventually(lambda: found if (found := self.state(shard))["state"] == state else None, f"{shard} {state}")

    def url(self, vhost: str = "/", user: str = "guest", password: str = "guest") -> str:
        name = "%2f" if vhost == "/" else vhost
        return f"amqp://{user}:{password}@127.0.0.1:{self.port}/{name}"

    def pika(self, vhost: str = "/", user: str = "guest", password: str = "guest") -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.URLParameters(self.url(vhost, user, password)))


Begin = Callable[..., Node]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begun: list[Node] = []

    def begin_node(shards: int = 2, **patience: object) -> Node:
        begun.append(Node(tmp_path, shards, **patience))
        return begun[-1].begin()

    yield begin_node
    for each in begun:
        with each:
            pass


def put(connection: pika.BlockingConnection, queue: str, count: int) -> None:
    """Publish durable messages with confirms."""
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    for _ in range(count):
        channel.basic_publish("", queue, b"x", pika.BasicProperties(delivery_mode=2))


def depth(connection: pika.BlockingConnection, queue: str) -> int:
    found: int = connection.channel().queue_declare(queue, passive=True).method.message_count
    return found


def declare_for_ever(client: Connection) -> None:
    """Declare a queue again and again, until the connection ends."""
    while True:
        client.declare_queue("q")


def serve_for_ever(connection: pika.BlockingConnection) -> None:
    """Handle what the node sends, until the connection ends."""
    while True:
        connection.process_data_events(0.1)


def test_clients_of_both_protocols_reach_the_shard_of_their_vhost(begin: Begin) -> None:
    node = begin()
    node.do(vhost="west")
    node.do(user="alice", vhosts=["/", "west"])
    assert node.do(look=True)["vhosts"] == {"/": "1", "west": "2"}
    for vhost, count in (("/", 2), ("west", 3)):
        with node.pika(vhost, "alice", "secret") as connection:
            put(connection, "orders", count)
        for protocol in ("amqp091", "amqp10"):
            with connect(node.url(vhost, "alice", "secret"), protocol=protocol) as client:
                client.publisher("orders").send(b"y")
    for vhost, count in (("/", 4), ("west", 5)):
        with node.pika(vhost, "alice", "secret") as connection:
            assert depth(connection, "orders") == count
    assert (node.data / "shards" / "2" / "messages.sqlite").exists()


def test_proton_is_served_at_the_port_of_the_node(begin: Begin) -> None:
    node = begin()
    with node.pika() as connection:
        put(connection, "orders", 0)
    proton = ProtonConnection(f"amqp://guest:guest@127.0.0.1:{node.port}", timeout=PATIENCE, allowed_mechs="PLAIN")
    proton.create_sender("orders").send(Message(body="x"))
    assert proton.create_receiver("orders").receive(timeout=PATIENCE).body == "x"
    proton.close()


async def test_aio_pika_is_served_at_the_port_of_the_node(tmp_path: Path) -> None:
    with Node(tmp_path).begin() as node:
        connection = await aio_pika.connect(node.url())
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("orders")
            await channel.default_exchange.publish(aio_pika.Message(b"x"), "orders")
            message = await queue.get(timeout=PATIENCE)
            assert message.body == b"x"
            await message.ack()


def test_login_by_scram_reaches_the_shard_also_of_a_user_made_later(begin: Begin) -> None:
    node = begin()
    node.do(vhost="west")
    node.do(user="alice", vhosts=["/", "west"])
    scram: dict[str, Any] = {"protocol": "amqp10", "mechanism": "SCRAM-SHA-256"}
    for vhost in ("/", "west"):
        with connect(node.url(vhost, "alice", "secret"), **scram) as client:
            client.declare_queue("mine", exclusive=True)
        with pytest.raises(penstock.ClientError):
            connect(node.url(vhost, "alice", "wrong"), **scram)


def test_unknown_vhost_and_wrong_password_are_refused_as_by_a_broker(begin: Begin) -> None:
    node = begin()
    with pytest.raises(ProbableAccessDeniedError, match=r"530.*vhost nowhere not found"):
        node.pika("nowhere")
    with pytest.raises(ProbableAuthenticationError):
        node.pika(password="wrong")
    with node.pika() as connection:
        assert connection.is_open


def test_killed_shard_leaves_other_shards_alone_and_serves_its_clients_again(begin: Begin) -> None:
    node = begin()
    node.do(vhost="west")
    node.do(user="alice", vhosts=["/", "west"])
    with node.pika("/", "alice", "secret") as spared:
        with node.pika("west", "alice", "secret") as connection:
            put(connection, "orders", 3)
        os.kill(node.state("2")["pid"], signal.SIGKILL)
        with node.pika("west", "alice", "secret") as again:  # The login waits for the next process.
            assert depth(again, "orders") == 3
        put(spared, "here", 1)
        assert depth(spared, "here") == 1


def test_hanging_shard_is_killed_and_its_waiting_client_is_served(begin: Begin) -> None:
    node = begin(answer_s=5.0, ping_s=0.5)
    with node.pika() as connection:
        put(connection, "orders", 1)
    os.kill(node.await_state("1", "serving")["pid"], signal.SIGSTOP)
    with node.pika() as again:
        assert depth(again, "orders") == 1


def test_client_of_a_shard_that_is_given_up_gets_the_reason(begin: Begin) -> None:
    node = begin(pauses_s=[])
    node.do(vhost="west")
    node.do(user="alice", vhosts=["/", "west"])
    os.kill(node.await_state("2", "serving")["pid"], signal.SIGKILL)
    node.await_state("2", "stopped")
    with pytest.raises(ProbableAccessDeniedError, match=r"320.*shard '2' is stopped: it died once"):
        node.pika("west", "alice", "secret")
    with node.pika("/", "alice", "secret") as connection:
        assert connection.is_open


def test_user_that_is_barred_is_cut_off_and_refused(begin: Begin) -> None:
    node = begin()
    node.do(user="admin", vhosts=["/"])
    node.do(user="alice", vhosts=["/"])
    with connect(node.url("/", "alice", "secret"), reconnect=False) as client:
        client.declare_queue("q")
        node.do(bar="alice", vhost="/")
        with pytest.raises(penstock.ClientError, match="may not use vhost '/' any more"):
            declare_for_ever(client)
    with pytest.raises(ProbableAccessDeniedError, match="530"):
        node.pika("/", "alice", "secret")
    node.do(drop_user="alice")
    with pytest.raises(ProbableAuthenticationError):
        node.pika("/", "alice", "secret")


def test_deleted_vhost_leaves_its_shard_and_may_be_made_again(begin: Begin) -> None:
    node = begin()
    node.do(vhost="west")
    node.do(user="alice", vhosts=["/", "west"])
    connection = node.pika("west", "alice", "secret")
    put(connection, "orders", 1)
    node.do(drop_vhost="west")
    with pytest.raises(AMQPError):
        serve_for_ever(connection)
    with pytest.raises(ProbableAccessDeniedError, match="530"):
        node.pika("west", "alice", "secret")
    node.do(vhost="west")
    node.do(user="alice", vhosts=["west"])
    with node.pika("west", "alice", "secret") as again, pytest.raises(ChannelClosedByBroker):
        depth(again, "orders")


def test_node_starts_again_with_its_users_vhosts_and_messages(begin: Begin) -> None:
    node = begin()
    node.do(vhost="west")
    node.do(user="alice", vhosts=["/", "west"])
    with node.pika("west", "alice", "secret") as connection:
        put(connection, "orders", 4)
    node.process.kill()
    node.process.wait()
    node.await_end_of_all()
    again = begin(1)  # There are never fewer shards than before.
    with again.pika("west", "alice", "secret") as connection:
        assert depth(connection, "orders") == 4
    again.end_input()
    assert again.await_row(stopped=True)
    again.await_end_of_all()


async def test_store_of_a_broker_becomes_the_first_shard_and_goes_back(tmp_path: Path) -> None:
    alone = penstock.Broker("127.0.0.1:0", data=tmp_path, http="off")
    async with alone, penstock.connect(alone.url) as client:
        await client.declare_queue("orders", durable=True)
        await client.publisher("orders").send(b"x")
        await client.request("vhost.declare", name="old")
    with Node(tmp_path, 1).begin() as node:
        assert node.do(look=True)["vhosts"] == {"/": "1", "old": "1"}
        node.do(user="alice", vhosts=["/", "old"])
        with node.pika("/", "alice", "secret") as connection:
            assert depth(connection, "orders") == 1
        with node.pika("old", "alice", "secret") as connection:
            put(connection, "q", 1)
        node.end_input()
        node.await_row(stopped=True)
    library = penstock.Broker("127.0.0.1:0", data=tmp_path, http="off")
    with pytest.raises(StartError, match="is a node's with shards: use `penstock serve`"):
        await library.start()
    with serving(tmp_path, "--data", str(tmp_path), "--http", "off") as broker:
        async with penstock.connect(broker.url_of("alice", "secret")) as client:
            assert await client.delete_queue("orders") == 1
        async with penstock.connect(broker.url_of("alice", "secret") + "old") as client:
            assert await client.delete_queue("q") == 1


def test_second_node_of_a_directory_is_refused(begin: Begin) -> None:
    node = begin()
    with Node(node.data) as second:
        assert second.await_row(refused=None)["refused"] == (
            f"data directory '{node.data}/cluster' is in use by another broker (process {node.process.pid})"
        )


def test_catalogue_that_is_damaged_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "catalogue.sqlite").write_bytes(b"")
    with Node(tmp_path) as node:
        refusal = node.await_row(refused=None)["refused"]
        assert refusal.startswith(f"the catalogue '{tmp_path}/cluster/catalogue.sqlite' is empty")


async def test_node_with_a_database_is_refused(tmp_path: Path) -> None:
    channel, theirs = PacketChannel.pair()
    settings = Settings(store="postgresql://db/penstock")
    with pytest.raises(StartError, match="shards need a data directory, and the setting 'store' names a database"):
        Parent(Zygote(0, channel), settings, tmp_path, 2, Allowance(1 << 30, 1_024), Patience())
    channel.close()
    theirs.close()


def test_connections_of_a_user_are_limited_over_all_shards(begin: Begin) -> None:
    node = begin()
    node.do(vhost="west")
    node.do(user="alice", vhosts=["/", "west"])
    node.do(limit="alice", connections=2)
    first = node.pika("/", "alice", "secret")
    second = node.pika("west", "alice", "secret")
    for vhost in ("/", "west"):
        with pytest.raises(ProbableAccessDeniedError, match=r"530.*user 'alice': user connection limit \(2\)"):
            node.pika(vhost, "alice", "secret")
    first.close()
    third = node.pika("west", "alice", "secret")
    os.kill(node.state("2")["pid"], signal.SIGKILL)
    for ended in (second, third):
        with pytest.raises(AMQPError):
            serve_for_ever(ended)
    with node.pika("west", "alice", "secret") as fourth, node.pika("/", "alice", "secret") as fifth:
        assert fourth.is_open
        assert fifth.is_open
