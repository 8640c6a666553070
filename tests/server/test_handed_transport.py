"""Connections of a shard whose clients another process has logged in, on real sockets."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from pamqp import commands

from penstock.connections.connection import Connection
from penstock.connections.peer import Peer
from penstock.driver.services import DriverServices
from penstock.server.login_record import LoginRecord, RecordError
from penstock.server.shard import Allowance, Shard
from penstock.server.transport import SMALL_RECEIVE_BUFFER
from penstock.server.turn_loop import new_loop
from penstock.settings.config import Settings
from tests.support.finished_logins import OPENING, LoggedInPeer, guest_record
from tests.support.raw_client import METHOD, method_frame, raw_frame
from tests.support.tokens import policy, token

T = TypeVar("T")
CHANNEL = method_frame(1, commands.Channel.Open())
OPEN_OK, CHANNEL_OPEN_OK = commands.Connection.OpenOk, commands.Channel.OpenOk


def with_shard(scene: Callable[[Shard], Awaitable[None]]) -> None:
    """Play a scene with a shard without a store, on the loop of a broker."""

    async def play() -> None:
        shard = Shard("penstock@here", Settings(), None, Allowance(1_000_000_000, 1000))
        shard.begin()
        await shard.hold_store()
        await shard.restore()
        shard.admit()
        try:
            await scene(shard)
        finally:
            await shard.close()
            await shard.release()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(play())


async def handed(shard: Shard, record: LoginRecord, talk: Callable[[LoggedInPeer], T], early: bytes = b"") -> T:
    """Return what a client says of its talk with the shard; `early` is sent before the shard has the socket."""
    ours, theirs = socket.socketpair()
    theirs.sendall(early)
    ours.setblocking(False)
    await shard.take_handed(ours, record)
    try:
        return await asyncio.to_thread(talk, LoggedInPeer(theirs))
    finally:
        theirs.close()


def the_connection(shard: Shard) -> Connection:
    (connection,) = shard.driver.connections.values()
    return connection


def opens(peer: LoggedInPeer) -> bool:
    """Return whether the answers to the opens of virtual host and channel come, and then the client is served."""
    peer.expect(0, OPEN_OK)
    peer.expect(1, CHANNEL_OPEN_OK)
    peer.declare_shared("orders")
    return peer.is_well()


@pytest.mark.parametrize("cut", [0, 1, 7, len(OPENING), len(OPENING) + 3, len(OPENING + CHANNEL)])
def test_input_of_the_record_comes_before_input_of_the_socket(cut: int) -> None:
    async def scene(shard: Shard) -> None:
        said = OPENING + CHANNEL
        assert await handed(shard, guest_record(said[:cut]), opens, early=said[cut:])
        assert "orders" in shard.driver.broker.vhosts["/"].queues

    with_shard(scene)


def test_handed_connection_counts_as_no_login() -> None:
    async def scene(shard: Shard) -> None:
        shard.driver.audit.enable(1_000_000)
        shard.driver.connection_limits.change(handshakes_max=0, handshakes_address_max=0, login_rate_max=1)
        services = shard.driver.services

        def inspect(peer: LoggedInPeer) -> int:
            assert opens(peer)
            return services.logins.count("this machine") + services.logins.count("10.0.0.7")

        record = guest_record(OPENING + CHANNEL, address="10.0.0.7:1", loopback=False)
        for _ in range(3):
            assert await handed(shard, record, inspect) == 0
        assert not any(b"login" in each for each in shard.driver.audit.take())

    with_shard(scene)


def test_open_of_an_unknown_virtual_host_is_refused_by_the_shard() -> None:
    async def scene(shard: Shard) -> None:
        opening = method_frame(0, commands.Connection.Open("nowhere"))
        code, text = await handed(shard, guest_record(opening), lambda peer: peer.refused(0))
        assert (code, text) == (530, "NOT_ALLOWED - vhost nowhere not found")

    with_shard(scene)


def test_agreed_limits_are_enforced_by_the_shard() -> None:
    async def scene(shard: Shard) -> None:
        def exceed(peer: LoggedInPeer) -> tuple[int, str]:
            peer.expect(0, OPEN_OK)
            peer.say(raw_frame(METHOD, 1, bytes(5000)))
            return peer.refused(0)

        code, text = await handed(shard, guest_record(frame_max=4096), exceed)
        assert code == 501
        assert "4096" in text
        opened = OPENING + CHANNEL + method_frame(2, commands.Channel.Open())

        def open_two(peer: LoggedInPeer) -> tuple[int, str]:
            peer.expect(0, OPEN_OK)
            peer.expect(1, CHANNEL_OPEN_OK)
            return peer.refused(0)

        assert (await handed(shard, guest_record(opened, channel_max=1), open_two))[0] == 530

    with_shard(scene)


def test_agreed_heartbeat_is_kept_by_the_shard() -> None:
    async def scene(shard: Shard) -> None:
        def inspect(peer: LoggedInPeer) -> float:
            opens(peer)
            idle = the_connection(shard).engine.idle
            assert idle is not None
            return idle.beat_s

        assert await handed(shard, guest_record(OPENING + CHANNEL, heartbeat_s=30), inspect) == 15.0

    with_shard(scene)


def test_client_with_a_small_receive_buffer_gets_it_from_the_shard() -> None:
    async def scene(shard: Shard) -> None:
        def size(peer: LoggedInPeer) -> int:
            opens(peer)
            (transport,) = shard.event_loop.transports.values()
            assert transport._socket is not None
            return int(transport._socket.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))

        whole = await handed(shard, guest_record(OPENING + CHANNEL), size)
        small = await handed(shard, guest_record(OPENING + CHANNEL, properties={"product": "py-amqp"}), size)
        assert small == 2 * SMALL_RECEIVE_BUFFER != whole

    with_shard(scene)


def renews(peer: LoggedInPeer, secret: str) -> bool:
    opens(peer)
    peer.send(0, commands.Connection.UpdateSecret(secret, "new"))
    answer = peer.read_method()[1]
    if isinstance(answer, commands.Connection.UpdateSecretOk):
        return peer.is_well()
    assert isinstance(answer, commands.Connection.Close)
    return False


def test_token_is_renewed_by_the_shard() -> None:
    async def scene(shard: Shard) -> None:
        assert isinstance(shard.driver.services, DriverServices)
        shard.driver.services.tokens = policy()
        first = ("configure:*/*", "write:*/*", "read:*/*")
        record = guest_record(OPENING + CHANNEL, user="anna", scopes=first, expires_at=time.time() + 3600)
        newer = token("penstock.read:*/*", exp=time.time() + 7200)

        def inspect(peer: LoggedInPeer) -> list[bool]:
            connection = the_connection(shard)
            assert renews(peer, newer)
            rules = connection.access.rules
            assert connection.login.expires_at() > time.time() + 7000
            return [rules.permits(kind, "/", "orders") for kind in ("configure", "read")]

        assert await handed(shard, record, inspect) == [False, True]
        assert not await handed(shard, record, lambda peer: renews(peer, token("penstock.read:*/*", sub="eve")))

    with_shard(scene)


def test_expired_token_ends_the_connection_in_the_shard() -> None:
    async def scene(shard: Shard) -> None:
        record = guest_record(user="anna", scopes=("read:*/*",), expires_at=time.time() - 1)

        def hear(peer: LoggedInPeer) -> tuple[int, str]:
            peer.expect(0, OPEN_OK)
            return peer.refused(0)

        code, text = await handed(shard, record, hear)
        assert code == 403
        assert "has expired at timestamp" in text

    with_shard(scene)


def test_record_of_an_unknown_protocol_leaves_no_connection() -> None:
    async def scene(shard: Shard) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, pytest.raises(RecordError, match="names a protocol that this shard does not have"):
            await shard.take_handed(ours, guest_record(protocol="AMQP 2"))
        assert shard.driver.connections == {}

    with_shard(scene)


def test_handed_socket_whose_peer_is_gone_leaves_no_connection() -> None:
    async def scene(shard: Shard) -> None:
        ours, theirs = socket.socketpair()
        theirs.close()
        ours.setblocking(False)
        await shard.take_handed(ours, guest_record(OPENING + CHANNEL))
        await asyncio.wait_for(shard.event_loop.emptied.wait(), 60)
        assert shard.driver.connections == {}
        assert shard.event_loop.transports == {}

    with_shard(scene)


def test_connection_has_the_number_of_its_record_and_others_the_next_of_the_shard() -> None:
    async def scene(shard: Shard) -> None:
        shard.driver.first_number = 1_000

        def talk(peer: LoggedInPeer) -> bool:
            assert the_connection(shard).name().startswith("con:17(")
            return opens(peer)

        assert await handed(shard, guest_record(OPENING + CHANNEL, number=17), talk)
        assert shard.driver.connect(Peer("127.0.0.1:4000", True)).number > 1_000

    with_shard(scene)


def test_second_connection_with_the_number_of_another_is_refused() -> None:
    async def scene(shard: Shard) -> None:
        shard.driver.first_number = 16
        shard.driver.connect(Peer("127.0.0.1:4000", True))
        ours, theirs = socket.socketpair()
        with ours, theirs, pytest.raises(RecordError, match="connection 17 is here already"):
            await shard.take_handed(ours, guest_record(number=17))
        with pytest.raises(RecordError, match="connection 17 is here already"):
            await shard.take_stranger(lambda transport: transport, ours, 17)
        assert len(shard.driver.connections) == 1

    with_shard(scene)


def test_stranger_has_the_number_that_came_with_its_socket() -> None:
    async def scene(shard: Shard) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            await shard.take_stranger(lambda transport: transport, ours, 23)
            assert the_connection(shard).number == 23

    with_shard(scene)


def test_end_of_a_handed_connection_is_reported_once() -> None:
    async def scene(shard: Shard) -> None:
        ends: list[int] = []
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        await shard.take_handed(ours, guest_record(OPENING + CHANNEL), lambda: ends.append(1))
        assert ends == []
        theirs.close()
        await asyncio.wait_for(shard.event_loop.emptied.wait(), 60)
        assert ends == [1]

    with_shard(scene)
