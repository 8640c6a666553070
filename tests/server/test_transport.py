"""Transport: reading, and the order of closing a socket, in simulated and in virtual time; and a reset by the peer."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator

import pytest
from pamqp import commands

import penstock
from penstock.connections.connection_limits import ConnectionLimits
from penstock.server import transport
from penstock.server.transport import ReadState, SocketState
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from penstock.testing.broker_thread import BrokerThread
from penstock.wire.amqp091 import spec
from tests.support.raw_client import open_peer
from tests.support.simulated_client import Client
from tests.support.simulated_loop import SimLoop, simulate
from tests.support.simulated_network import connect
from tests.support.simulated_world import World


class Listening(Client):
    """A client that notes when the broker's side of the socket has ended, and leaves its own open."""

    ended_at: float | None = None

    def eof_received(self) -> bool:
        self.ended_at = self.loop.time()
        return True


async def opened(world: World) -> Listening:
    client = Listening(world.loop, "peer")
    connect(world.loop, transport.Transport(world.event_loop), client, 1)
    await client.open()
    return client


def test_peer_that_closed_the_connection_gets_a_moment_to_close_its_side_first() -> None:
    async def close_first(loop: SimLoop) -> None:
        world = World(loop)
        client = await opened(world)
        await client.say_goodbye()
        await asyncio.sleep(transport.PEER_FIRST_S / 2)
        assert client.ended_at is None
        assert len(world.event_loop.leaving) == 1
        client.end.close()
        await world.settled()
        assert not world.event_loop.leaving
        assert not world.event_loop.transports

    simulate(1, close_first)


@pytest.fixture
def hour_for_the_peer(monkeypatch: pytest.MonkeyPatch) -> float:
    """Give peers an hour to close first: no real time that passes in a test is near it."""
    monkeypatch.setattr(transport, "PEER_FIRST_S", 3600.0)
    return 3600.0


@pytest.fixture
def virtual() -> Iterator[BrokerThread]:
    """A broker with real sockets on a virtual clock."""
    thread = BrokerThread(None, Settings(flow_log=NO_LOG))
    yield thread
    thread.stop()


def end_in(sock: socket.socket) -> bool:
    """Return whether the end of the broker's side has arrived."""
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False


def test_close_ok_is_followed_by_the_end_after_the_time_of_the_peer(
    hour_for_the_peer: float, virtual: BrokerThread
) -> None:
    with open_peer(virtual.broker) as peer:
        peer.send(0, commands.Connection.Close(200, "", 0, 0))
        peer.expect(0, commands.Connection.CloseOk)
        virtual.clock.advance(hour_for_the_peer - 60)
        assert not end_in(peer.socket)
        virtual.clock.advance(60)
        assert end_in(peer.socket)


def test_socket_is_released_when_the_peer_closes_after_close_ok(
    hour_for_the_peer: float, virtual: BrokerThread
) -> None:
    with open_peer(virtual.broker) as peer:
        peer.send(0, commands.Connection.Close(200, "", 0, 0))
        peer.expect(0, commands.Connection.CloseOk)
        assert virtual.call(lambda: len(virtual.broker.shard.event_loop.leaving)) == 1
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.is_closed()
        assert virtual.wait_for(lambda: not virtual.broker.shard.event_loop.leaving)


def test_peer_that_keeps_its_socket_open_is_given_up() -> None:
    async def never_close(loop: SimLoop) -> None:
        world = World(loop)
        client = await opened(world)
        await client.say_goodbye()
        said = loop.time()
        await asyncio.sleep(transport.PEER_FIRST_S + transport.LEAVING_S + 1)
        assert client.ended_at is not None
        assert transport.PEER_FIRST_S <= client.ended_at - said + 0.1 <= transport.PEER_FIRST_S + 0.2
        assert client.lost
        assert not world.event_loop.leaving

    simulate(2, never_close)


def test_peer_that_answers_our_close_gets_our_end_at_once() -> None:
    async def be_closed(loop: SimLoop) -> None:
        world = World(loop)
        client = await opened(world)
        client.send(spec.BASIC_PUBLISH, 7, routing_key="q")
        await world.settled()
        assert client.closed_with is not None
        client.send(spec.CONNECTION_CLOSE_OK, 0)
        await asyncio.sleep(0.1)
        assert client.ended_at is not None

    simulate(3, be_closed)


def test_closed_sockets_that_linger_are_bounded() -> None:
    async def close_many(loop: SimLoop) -> None:
        world = World(loop)
        first, second = await opened(world), await opened(world)
        transport.LEAVING_MAX, before = 1, transport.LEAVING_MAX
        try:
            await first.say_goodbye()
            await second.say_goodbye()
            await asyncio.sleep(0.1)
        finally:
            transport.LEAVING_MAX = before
        assert (first.lost, second.lost) == (False, True)

    simulate(4, close_many)


async def test_broker_stops_although_a_peer_has_reset_its_connection_in_the_same_moment() -> None:
    async with penstock.Broker(listen="127.0.0.1:0", settings=Settings(flow_log=NO_LOG)) as broker:
        loop = asyncio.get_running_loop()
        peer = socket.create_connection(broker.addresses[0])
        peer.setblocking(False)
        await loop.sock_sendall(peer, b"AMQP\x00\x00\x09\x01")
        await loop.sock_recv(peer, 1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()  # A reset, of which the broker's event loop does not know yet.
    assert broker.driver.connections == {}


def test_socket_is_read_in_pulses_while_its_hold_budget_is_used_up() -> None:
    async def be_held(loop: SimLoop) -> None:
        policy = ConnectionLimits()
        policy.change(hold_bytes=2048)
        world = World(loop, policy)
        client = await opened(world)
        await world.declare(client, "orders", capacity_messages=9, stop_messages=1, resume_messages=0, hold_deadline=0)
        (held,) = world.event_loop.transports.values()
        client.publish("orders", b"first")
        await world.settled()
        for _ in range(12):
            client.publish("orders", bytes(1000))
        await world.settled()
        assert client.blocked
        assert held.reads is ReadState.READING, "it may finish what it is sending when it is told"
        for _ in range(3):
            client.publish("orders", bytes(1000))
        await world.settled()
        assert held.connection.may_pause()
        seen = {held.reads}
        loop.after_pass = lambda: seen.add(held.reads)
        client.publish("orders", b"in a pulse")
        await asyncio.sleep(3 * policy.pulse_s)
        assert seen == {ReadState.PAUSED, ReadState.PULSE}
        for _ in range(20):
            world.queue.purge(world.core.now)
            world.event_loop.schedule()
            await world.settled()
        assert held.reads is ReadState.READING

    simulate(5, be_held)


def test_socket_of_a_closed_connection_goes_through_its_states_in_order() -> None:
    async def close(loop: SimLoop) -> None:
        world = World(loop)
        client = await opened(world)
        (socket_of_client,) = world.event_loop.transports.values()
        assert socket_of_client.state is SocketState.OPEN
        await client.say_goodbye()
        assert socket_of_client.state is SocketState.PEER_FIRST
        await asyncio.sleep(transport.PEER_FIRST_S + 0.1)
        assert socket_of_client.state is SocketState.HALF_CLOSED
        await asyncio.sleep(transport.LEAVING_S)
        assert socket_of_client.state is SocketState.LOST

    simulate(6, close)
