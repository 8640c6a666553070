"""Shard: its steps, its connections from an intake that is no listener, and what it takes of its machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf
from pathlib import Path

import pytest
from pamqp import commands

from penstock.access.permission import Permission
from penstock.client.aio import Connection
from penstock.client.errors import ClientError, ConnectError
from penstock.client.options import Options
from penstock.errors import StartError
from penstock.server.shard import Allowance, Shard
from penstock.settings.config import Settings
from penstock.store.directory import DataDirectory
from tests.support.raw_client import open_peer, publish_frames

ALLOWANCE = Allowance(1_000_000_000, 1000)


async def lock(shard: Shard) -> None:
    shard.lock()


async def begin(shard: Shard) -> None:
    shard.begin()


async def admit(shard: Shard) -> None:
    shard.admit()


STEPS: list[Callable[[Shard], Awaitable[None]]] = [lock, begin, Shard.hold_store, Shard.restore, admit]
"""The steps of a start, in order."""


@pytest.fixture
async def shard(tmp_path: Path) -> AsyncIterator[Shard]:
    """A shard with a store, which serves."""
    shard = Shard("penstock@here", Settings(), tmp_path, ALLOWANCE)
    for step in STEPS:
        await step(shard)
    yield shard
    await shard.close()
    await shard.release()


async def test_shard_without_a_node_knows_no_listeners(shard: Shard) -> None:
    assert shard.driver.process.listeners == []


async def test_shard_serves_sockets_that_another_process_could_have_accepted(shard: Shard) -> None:
    parent, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with parent, channel, socket.create_server(("127.0.0.1", 0)) as listening:

        def publish() -> int:
            with open_peer(listening.getsockname()) as peer:
                peer.declare_shared("orders")
                peer.confirm()
                peer.say(publish_frames(1, "", "orders", b"1 book"))
                assert isinstance(peer.answer(), commands.Basic.Ack)
                return peer.depth("orders")

        client = asyncio.create_task(asyncio.to_thread(publish))
        accepted, _ = await asyncio.to_thread(listening.accept)
        socket.send_fds(parent, [b"open"], [accepted.fileno()])
        accepted.close()
        _, (descriptor,), _, _ = socket.recv_fds(channel, 16, 1)
        passed = socket.socket(fileno=descriptor)
        passed.setblocking(False)
        await shard.take(passed)
        assert await client == 1
    (queue,) = shard.driver.broker.vhosts["/"].queues.values()
    assert queue.messages == 1


def internal_options(shard: Shard, user: str, protocol: str, vhost: str = "/") -> Options:
    """Return the options of a client that logs in over a socket pair, which the shard takes as one of this user."""

    async def dial() -> socket.socket:
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        await shard.take_internal(ours, user, "worker:1")
        return theirs

    wanted = {"protocol": protocol, "mechanism": "EXTERNAL", "virtual_host": vhost, "name": "the bridge"}
    options = Options("amqp://", {**wanted, "reconnect_delay": 0.01, "user": user})
    options.dial = dial
    return options


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
async def test_internal_peer_logs_in_without_a_password_as_its_user(shard: Shard, protocol: str) -> None:
    shard.driver.connection_limits.change(sasl_mechanisms=["PLAIN"])
    shard.driver.broker.access.put_user("ada", None, [])
    with pytest.raises(ConnectError, match=r"ada|access"):
        await Connection(internal_options(shard, "ada", protocol))
    shard.driver.broker.access.set_permission("ada", "/", Permission("", "", ""))
    async with Connection(internal_options(shard, "ada", protocol)) as connection:
        (taken,) = shard.driver.connections.values()
        assert (taken.user, taken.peer.mechanism, taken.peer.given_name) == ("ada", "EXTERNAL", "the bridge")
        assert taken.peer.ends() == "worker:1 -> broker:0"
        assert taken.peer.is_protected()
        with pytest.raises(ClientError, match="orders"):
            await connection.declare_queue("orders")


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
async def test_internal_peer_of_a_user_who_is_gone_is_refused(shard: Shard, protocol: str) -> None:
    with pytest.raises(ConnectError, match=r"credentials of nobody|refuses nobody"):
        await Connection(internal_options(shard, "nobody", protocol))
    assert not any(each.logged_in for each in shard.driver.connections.values())


async def test_internal_client_dials_again_after_a_loss(shard: Shard) -> None:
    async with Connection(internal_options(shard, "guest", "amqp10")) as connection:
        await connection.declare_queue("orders")
        (transport,) = shard.event_loop.transports.values()
        transport.abort()
        async with connection.receiver("orders") as receiver:
            await connection.publisher("orders").send(b"1 book")
            delivery = await receiver.receive(60)
        assert delivery is not None
        assert delivery.body == b"1 book"


async def test_socket_whose_peer_is_gone_leaves_no_connection(shard: Shard) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.setblocking(False)
    await shard.take(ours)
    await asyncio.wait_for(shard.event_loop.emptied.wait(), 60)
    assert shard.driver.connections == {}
    assert shard.event_loop.transports == {}


@pytest.mark.parametrize("steps", range(1, len(STEPS) + 1))
async def test_directory_is_free_after_a_stop_at_any_step(tmp_path: Path, steps: int) -> None:
    shard = Shard("penstock@here", Settings(), tmp_path, ALLOWANCE)
    for step in STEPS[:steps]:
        await step(shard)
    await shard.close()
    await shard.release()
    again = DataDirectory(tmp_path)
    again.lock()
    again.unlock()


def test_directory_in_use_is_reported_and_stays_locked(tmp_path: Path) -> None:
    owner = DataDirectory(tmp_path)
    owner.lock()
    with pytest.raises(StartError, match="is in use by another broker"):
        Shard("penstock@here", Settings(), tmp_path, ALLOWANCE).lock()
    with pytest.raises(StartError):
        DataDirectory(tmp_path).lock()
    owner.unlock()


async def test_slow_turns_are_those_from_a_setting_on(shard: Shard) -> None:
    assert shard.driver.slow_turn_s == 0.1
    shard.apply(Settings(slow_turn_ms=0))
    assert shard.driver.slow_turn_s == inf


def test_shard_before_its_start_has_no_event_loop() -> None:
    with pytest.raises(StartError, match="the broker has no event loop yet: start it with"):
        _ = Shard("penstock@here", Settings(), None, ALLOWANCE).event_loop


@pytest.mark.parametrize(("memory", "files"), [(1_000_000_000, 1000), (8_000_000_000, 40)])
def test_limits_of_a_shard_are_parts_of_its_allowance(memory: int, files: int) -> None:
    shard = Shard("penstock@here", Settings(), None, Allowance(memory, files))
    limits = shard.driver.connection_limits
    gate = shard.driver.broker.gates.memory
    assert gate is not None
    assert gate.thresholds.capacity.bytes + gate.reserve == pytest.approx(0.4 * memory)
    assert (limits.start.handshakes_max, limits.start.handshakes_address_max) == (files // 2, files // 4)
    assert shard.driver.name == "penstock@here"


async def test_share_of_the_memory_changes_while_a_shard_runs(shard: Shard) -> None:
    gates = shard.driver.broker.gates

    def capacity() -> int:
        assert gates.memory is not None
        return int(gates.memory.thresholds.capacity.bytes + gates.memory.reserve)

    before = capacity()
    shard.allow(Allowance(ALLOWANCE.memory_bytes // 4, ALLOWANCE.open_files, 4))
    assert capacity() == before // 4
    shard.allow(ALLOWANCE)
    assert capacity() == before
