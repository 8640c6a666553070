"""Brokers in the process of a test that answer requests inside a node."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.cluster.asking import Peer
from penstock.server.asker import Asker
from penstock.server.http.asks import Asks, Inside, OwnAsks
from penstock.server.http.listener import HttpListener
from penstock.server.inside import listening_at
from penstock.server.node import node_name
from penstock.server.shard import Allowance, Shard
from penstock.settings.config import Settings
from tests.support.desk_node import ALLOWANCE, begin

KEY = secrets.token_hex(16)
GUEST = Asker(user="guest", address="10.0.0.9:4711", protocol="AMQP 0-9-1", vhost="/", connection="7", shard="other")


def new_name() -> str:
    """Return a name for a socket that no other test has."""
    return f"penstock-test-{secrets.token_hex(8)}"


@asynccontextmanager
async def serving(
    asks: Asks | None = None, settings: Settings | None = None, machine: Allowance = ALLOWANCE
) -> AsyncIterator[tuple[Shard, str]]:
    """Serve requests inside a node; return the broker, and the name of its socket."""
    settings = settings or Settings()
    shard = Shard(node_name(), settings, settings.data, machine)
    await begin(shard)
    name = new_name()
    listener = HttpListener(shard.event_loop, settings, True, Inside(KEY, asks or OwnAsks("1")))
    listener.start_inside(listening_at(name))
    try:
        yield shard, name
    finally:
        await listener.stop()
        await shard.close()
        await shard.release()


@asynccontextmanager
async def peer_at(name: str, key: str = KEY) -> AsyncIterator[Peer]:
    """Return a client of such a broker."""
    peer = Peer(name, key)
    try:
        yield peer
    finally:
        peer.close()
        await asyncio.sleep(0)
