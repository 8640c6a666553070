"""Transport: reading, and the order of closing a socket, in simulated time; and a reset by the peer."""

from __future__ import annotations

import asyncio
import socket
import struct

import penstock
from penstock.connections.connection_limits import ConnectionLimits
from penstock.server import transport
from penstock.server.transport import ReadState, SocketState
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from penstock.wire.amqp091 import spec
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
        policy.hold_bytes = 2048
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
