"""Wait of clients for their shard: its outcomes, and clients that disconnect meanwhile."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
from pamqp import commands

from penstock.cluster import giving
from penstock.cluster.desk import Desk
from penstock.cluster.passing import ClientRefused, NotTaken, StillPassing
from penstock.server.login_record import LoginRecord
from penstock.server.shard import Shard
from penstock.server.turn_loop import new_loop
from penstock.settings.config import Settings
from tests.support.brokers import PATIENCE
from tests.support.desk_node import ALLOWANCE, begin
from tests.support.finished_logins import LoggedInPeer
from tests.support.logins_ahead import ahead

Give = Callable[[str, LoginRecord, socket.socket], Awaitable[str]]


def with_desk(give: Give, talk: Callable[[LoggedInPeer], None], handshake_s: int = 10) -> None:
    """Have a client of a desk say all that it may say ahead, and then talk; nothing is left of it afterwards."""

    async def play() -> None:
        shard = Shard("desk", Settings(vhosts=[], handshake_s=handshake_s), None, ALLOWANCE)
        await begin(shard)
        desk = Desk(shard.event_loop, lambda vhost: True, give)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.sendall(ahead())
        await desk.take(ours)
        with theirs:
            await asyncio.to_thread(talk, LoggedInPeer(theirs))
        await asyncio.wait_for(shard.event_loop.emptied.wait(), PATIENCE)
        assert shard.driver.connections == {}
        await shard.close()
        await shard.release()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(play())


def raising(error: BaseException) -> Give:
    async def give(vhost: str, record: LoginRecord, sock: socket.socket) -> str:
        raise error

    return give


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (NotTaken("it has ended"), "virtual host '/' cannot be reached: it has ended"),
        (ClientRefused("it is full"), "virtual host '/' cannot be reached: it is full"),
        (OSError(24, "Too many open files"), "virtual host '/' cannot be reached: [Errno 24] Too many open files"),
        (ValueError("a bug"), "virtual host '/' cannot be reached"),
    ],
)
def test_client_that_no_shard_takes_gets_the_reason(error: Exception, sentence: str) -> None:
    def hear(peer: LoggedInPeer) -> None:
        peer.expect(0, commands.Connection.Start)
        peer.expect(0, commands.Connection.Tune)
        assert peer.refused(0) == (320, f"CONNECTION_FORCED - {sentence}")
        assert peer.is_closed()

    with_desk(raising(error), hear)


def test_client_that_a_shard_may_still_take_hears_nothing_more() -> None:
    def hear(peer: LoggedInPeer) -> None:
        peer.expect(0, commands.Connection.Start)
        peer.expect(0, commands.Connection.Tune)
        assert peer.is_closed()
        assert peer.data == b""

    with_desk(raising(StillPassing("perhaps")), hear)


def test_client_that_is_taken_keeps_its_socket_and_its_input() -> None:
    taken: list[tuple[str, LoginRecord, socket.socket]] = []

    async def give(vhost: str, record: LoginRecord, sock: socket.socket) -> str:
        taken.append((vhost, record, sock.dup()))
        return ""

    def hear(peer: LoggedInPeer) -> None:
        peer.expect(0, commands.Connection.Start)
        peer.expect(0, commands.Connection.Tune)
        while not taken:
            peer.socket.settimeout(0.01)
            with pytest.raises(TimeoutError):
                peer.socket.recv(1)
        (vhost, record, sock) = taken[0]
        with sock:
            assert (vhost, record.user, record.frame_max) == ("/", "guest", 131072)
            assert ahead().endswith(record.rest)
            sock.send(b"served")
            peer.socket.settimeout(PATIENCE)
            assert peer.socket.recv(100) == b"served"

    with_desk(give, hear)


def test_client_that_disconnects_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving, "HANG_UP_S", 0.01)
    ends: list[str] = []

    async def give(vhost: str, record: LoginRecord, sock: socket.socket) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append(vhost)
            raise
        return ""

    def leave(peer: LoggedInPeer) -> None:
        peer.expect(0, commands.Connection.Start)
        peer.expect(0, commands.Connection.Tune)

    with_desk(give, leave)
    assert ends == ["/"]


def test_stop_of_the_desk_ends_the_wait_and_sends_nothing() -> None:
    async def play() -> None:
        waiting = asyncio.Event()

        async def give(vhost: str, record: LoginRecord, sock: socket.socket) -> str:
            waiting.set()
            await asyncio.Event().wait()
            return ""

        shard = Shard("desk", Settings(vhosts=[]), None, ALLOWANCE)
        await begin(shard)
        desk = Desk(shard.event_loop, lambda vhost: True, give)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        theirs.sendall(ahead())
        await desk.take(ours)
        await asyncio.wait_for(waiting.wait(), PATIENCE)
        theirs.recv(1 << 16)
        await shard.close()
        await shard.release()
        with theirs:
            assert theirs.recv(100) == b""

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(play())
