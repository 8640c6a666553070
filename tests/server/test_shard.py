"""Shard: its steps, its connections from an intake that is no listener, and what it takes of its machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf
from pathlib import Path

import pytest
from pamqp import commands

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
