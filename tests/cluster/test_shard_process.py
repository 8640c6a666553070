"""Process of a shard: its answers to the node, and how it ends; test_supervision.py has its place under a node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cluster.packet_channel import PacketChannel, Row
from penstock.cluster.shard_orders import ShardOrder
from penstock.cluster.shard_process import ShardProcess, settings_of
from penstock.settings.config import Settings
from tests.support.unix_http import asked


class Node:
    """The node's end of a channel."""

    def __init__(self) -> None:
        self.channel, theirs = PacketChannel.pair()
        self.theirs = PacketChannel(theirs)

    async def next_message(self) -> Row:
        """Return the next message of the shard."""
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.channel.fileno(), arrived.set)
        await arrived.wait()
        loop.remove_reader(self.channel.fileno())
        (packet,) = self.channel.receive()
        return packet.message


def order_in(folder: Path) -> ShardOrder:
    return ShardOrder("west", str(folder), "penstock@node", (1 << 30, 1024, 1), str(folder / "http.sock"))


@pytest.fixture
def node() -> Iterator[Node]:
    found = Node()
    yield found
    found.channel.close()
    found.theirs.close()


async def test_shard_reports_that_it_serves_answers_and_stops_when_asked(tmp_path: Path, node: Node) -> None:
    running = asyncio.ensure_future(ShardProcess(Settings(), order_in(tmp_path), node.theirs).run())
    assert await node.next_message() == {"serves": True}
    node.channel.send({"ping": True})
    assert await node.next_message() == {"pong": True, "has": -1}
    overview = await asyncio.to_thread(asked, tmp_path / "http.sock", "GET", "/overview")
    assert overview["node"] == "penstock@node"
    node.channel.send({"stop": ""})
    assert await running == 0
    assert not (tmp_path / "http.sock").exists()


async def test_shard_stops_in_order_when_its_node_has_ended(tmp_path: Path, node: Node) -> None:
    running = asyncio.ensure_future(ShardProcess(Settings(), order_in(tmp_path), node.theirs).run())
    await node.next_message()
    node.channel.close()
    assert await running == 0


async def test_shard_that_cannot_start_reports_why(tmp_path: Path, node: Node) -> None:
    (tmp_path / "file").write_text("")
    status = await ShardProcess(Settings(), order_in(tmp_path / "file"), node.theirs).run()
    message = await node.next_message()
    assert status == 1
    assert message["fails"].startswith(f"cannot use data directory '{tmp_path / 'file'}'")


def test_settings_of_a_shard_name_no_address_and_directories_of_its_own() -> None:
    given = Settings(listen=["127.0.0.1:1"], listen_tls=["127.0.0.1:2"], http="127.0.0.1:3", http_tls="127.0.0.1:4",
                     metrics_listen="127.0.0.1:5", store="postgresql://db/x", flow_log="/logs/flow", audit_log="off",
                     vhosts=["/", "west"])  # fmt: skip
    order = ShardOrder("west", "/data/west", "node", (1, 1, 1), "/data/west/http.sock", copies=True)
    found = settings_of(given, order)
    assert (found.listen, found.listen_tls, found.http, found.http_tls, found.metrics_listen) == (
        [],
        [],
        "off",
        None,
        None,
    )
    assert (found.data, found.store, found.flow_log, found.audit_log) == ("/data/west", None, "/logs/flow/west", "off")
    assert found.vhosts == []
    assert settings_of(Settings(), order).flow_log is None
