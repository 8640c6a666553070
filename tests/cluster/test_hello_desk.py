"""Listener with TLS whose clients name their server: handshake and login are their shard's."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pamqp import commands

from penstock.cluster import hello_desk
from penstock.cluster.client_hello import record_octets
from penstock.cluster.hello_desk import HelloDesk
from penstock.server.shard import Shard
from penstock.server.turn_loop import new_loop
from penstock.server.turn_selector import HAS_EPOLL
from penstock.settings.config import Settings
from tests.support.brokers import PATIENCE, eventually, settings_file
from tests.support.certificates import Authority, hello, localhost
from tests.support.desk_node import ALLOWANCE, SLOW_NAME, TLS_SETTINGS, DeskNode, begin, desk_node
from tests.support.logins_ahead import ANSWERS, ahead
from tests.support.raw_client import Peer

pytestmark = pytest.mark.skipif(not HAS_EPOLL, reason="needs epoll")
HANDSHAKE_S = "handshake-s = 3\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = localhost(tmp_path_factory.mktemp("certificates"))
    authority.issue("server", "localhost", "t0.example.com", "t1.example.com", SLOW_NAME)
    return authority


@pytest.fixture(scope="module")
def node(authority: Authority) -> Iterator[DeskNode]:
    settings = TLS_SETTINGS.replace("[users]", f"{HANDSHAKE_S}[users]")
    with desk_node(authority.folder, *settings_file(authority.folder, settings)) as node:
        yield node


@pytest.fixture(autouse=True)
def _ends(node: DeskNode) -> Iterator[None]:
    """No connection, relay or open file is left after a test."""
    files = node.state()["files"]
    yield
    node.await_forgotten()
    eventually(lambda: node.state()["files"] == files, "a desk with the files of before")


def named(node: DeskNode, authority: Authority, name: str) -> Peer:
    """Return a client that has made its handshake with a server of this name."""
    peer = Peer(("127.0.0.1", node.name_port))
    peer.socket = authority.trusting().wrap_socket(peer.socket, server_hostname=name)
    return peer


@pytest.mark.parametrize("vhost", ["t0", "t1"])
def test_client_is_served_by_the_shard_of_its_server_name(node: DeskNode, authority: Authority, vhost: str) -> None:
    with closing(named(node, authority, f"{vhost}.example.com")) as peer:
        peer.open(vhost=vhost).channel()
        peer.declare("mine")
        assert peer.is_well()
        node.await_forgotten()
        assert node.state()["relays"] == 0


def test_client_of_another_shards_virtual_host_is_refused(node: DeskNode, authority: Authority) -> None:
    with closing(named(node, authority, "t0.example.com")) as peer:
        peer.log_in()
        peer.expect(0, commands.Connection.Tune)
        peer.send(0, commands.Connection.TuneOk(1, 8192, 0), commands.Connection.Open("t1"))
        assert peer.refused(0) == (530, "NOT_ALLOWED - vhost t1 not found")


def test_client_of_another_server_name_is_relayed(node: DeskNode, authority: Authority) -> None:
    with closing(named(node, authority, "localhost")) as peer:
        peer.open(vhost="t1").channel()
        assert peer.is_well()
        assert node.state()["relays"] == 1


@pytest.mark.parametrize("pieces", [1, 2, 6, 100, 500])
def test_hello_may_come_in_pieces(node: DeskNode, authority: Authority, pieces: int) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.trusting().wrap_bio(incoming, outgoing, server_hostname="t1.example.com")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    record = outgoing.read()
    with closing(Peer(("127.0.0.1", node.name_port))) as peer:
        size = max(1, len(record) // pieces)
        for at in range(0, len(record), size):
            peer.socket.sendall(record[at : at + size])
            if pieces < 10:
                node.state()
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                peer.socket.sendall(outgoing.read())
                incoming.write(peer.socket.recv(1 << 16))
        peer.socket.sendall(outgoing.read())
        tls.write(ahead("t1"))
        peer.socket.sendall(outgoing.read())
        node.await_forgotten()
        while len(peer.data) < 600:
            try:
                peer.data += tls.read(1 << 16)
            except ssl.SSLWantReadError:
                incoming.write(peer.socket.recv(1 << 16))
        for answer in ANSWERS[:2]:
            assert isinstance(peer.read_method()[1], answer)


def test_part_of_a_hello_wakes_the_desk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    record = hello(ssl.create_default_context())

    async def scene() -> None:
        looks: asyncio.Queue[int] = asyncio.Queue()
        found: asyncio.Queue[socket.socket] = asyncio.Queue()

        def counted(seen: bytes) -> int:
            looks.put_nowait(len(seen))
            return record_octets(seen)

        monkeypatch.setattr(hello_desk, "record_octets", counted)
        shard = Shard("desk", Settings(vhosts=[]), None, ALLOWANCE)
        await begin(shard)
        desk = HelloDesk(shard.event_loop, lambda name: False, lambda *client: asyncio.sleep(0, ""), found.put)
        with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
            client.connect(listening.getsockname())
            sock, _ = listening.accept()
            sock.setblocking(False)
            await desk.take(sock)
            before = 0
            for count in (3, 40, len(record)):
                client.sendall(record[before:count])
                before = count
                assert await asyncio.wait_for(looks.get(), PATIENCE) == count
                for _ in range(50):  # Passes of the loop, each of which polls.
                    await asyncio.sleep(0)
                assert looks.empty()
            with await asyncio.wait_for(found.get(), PATIENCE) as passed:
                assert passed.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
                assert passed.recv(1 << 16) == record
        await shard.close()
        await shard.release()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scene())


@pytest.mark.parametrize("said", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"])
def test_client_that_disconnects_within_its_hello_is_forgotten(node: DeskNode, said: bytes) -> None:
    with closing(Peer(("127.0.0.1", node.name_port))) as peer:
        peer.say(said)
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.is_closed()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x00\x09\x01", b"\x16\x03\x01\x00\x00"])
def test_client_without_tls_is_disconnected(node: DeskNode, said: bytes) -> None:
    with closing(Peer(("127.0.0.1", node.name_port))) as peer:
        peer.say(said)
        assert peer.is_closed()


def test_client_of_a_shard_that_does_not_serve_is_disconnected_with_a_line(
    node: DeskNode, authority: Authority
) -> None:
    with closing(Peer(("127.0.0.1", node.name_port))) as peer, pytest.raises((ssl.SSLError, OSError)):
        peer.socket = authority.trusting().wrap_socket(peer.socket, server_hostname=SLOW_NAME)
    sentence = f"the shard of the server name '{SLOW_NAME}' is not served yet"
    eventually(lambda: sentence in node.log(), "the sentence in the log")


def test_stranger_who_says_nothing_is_given_up_after_the_time_for_a_handshake(node: DeskNode) -> None:
    with ExitStack() as stack:
        silent = [
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", node.name_port)))) for _ in range(50)
        ]
        silent[0].settimeout(PATIENCE)
        assert silent[0].recv(1) == b""
        node.await_forgotten()


def test_shard_that_is_killed_before_the_handshake_is_followed(tmp_path: Path) -> None:
    authority = localhost(tmp_path)
    authority.issue("server", "t0.example.com")
    with (
        desk_node(tmp_path, *settings_file(tmp_path, TLS_SETTINGS), "--shards", "1", "--processes", "2") as node,
        ExitStack() as stack,
    ):
        os.kill(node.pids[0], signal.SIGSTOP)
        peers = [stack.enter_context(closing(Peer(("127.0.0.1", node.name_port)))) for _ in range(5)]
        for peer in peers:
            outgoing = ssl.MemoryBIO()
            tls = authority.trusting().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="t0.example.com")
            with pytest.raises(ssl.SSLWantReadError):
                tls.do_handshake()
            peer.socket.sendall(outgoing.read())
        eventually(lambda: node.state()["waiting"] == 5, "clients on their way")
        os.kill(node.pids[0], signal.SIGKILL)
        for peer in peers:
            peer.socket.settimeout(PATIENCE)
            assert peer.socket.recv(1) == b"\x16"  # The ServerHello of the next process.
