"""Relay of clients whose TLS the desk has, to shards in other processes."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pika
import pika.credentials
import pytest
from pamqp import commands

from penstock.sync import connect
from tests.support.brokers import PATIENCE, eventually, settings_file
from tests.support.certificates import Authority, localhost
from tests.support.desk_node import TLS_SETTINGS, DeskNode, desk_node
from tests.support.logins_ahead import ANSWERS, ahead
from tests.support.raw_client import Peer, method_frame, publish_frames
from tests.support.tls_records import DATA, RecordMaker


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return localhost(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(authority: Authority) -> Iterator[DeskNode]:
    with desk_node(authority.folder, *settings_file(authority.folder, TLS_SETTINGS)) as node:
        yield node


class SecurePeer(Peer):
    """A bare socket behind TLS."""

    def __init__(self, node: DeskNode, authority: Authority) -> None:
        super().__init__(("127.0.0.1", node.tls_port))
        self.socket = authority.trusting().wrap_socket(self.socket, server_hostname="localhost")


@pytest.fixture
def peer(node: DeskNode, authority: Authority) -> Iterator[SecurePeer]:
    """A client by TLS with channel 1 open, in a shard."""
    with closing(SecurePeer(node, authority)) as peer:
        peer.open(vhost="t1").channel()
        yield peer


@pytest.fixture(autouse=True)
def _ends(node: DeskNode) -> Iterator[None]:
    """No relay, connection or open file is left after a test."""
    files = node.state()["files"]
    yield
    node.await_forgotten()
    eventually(lambda: node.state()["relays"] == 0, "a desk without relays")
    eventually(lambda: node.state()["files"] == files, "a desk with the files of before")


@pytest.mark.parametrize("certificate", [None, "client"])
def test_pika_by_tls_publishes_and_gets(node: DeskNode, authority: Authority, certificate: str | None) -> None:
    options = pika.SSLOptions(authority.trusting(certificate), "localhost")
    credentials = pika.credentials.ExternalCredentials() if certificate else pika.PlainCredentials("guest", "guest")
    where = pika.ConnectionParameters(
        "127.0.0.1", node.tls_port, "t1", credentials, ssl_options=options, frame_max=8192, heartbeat=5
    )
    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", exclusive=True)
        channel.confirm_delivery()
        for size in (0, 1, 16_384, 2_000_000):
            channel.basic_publish("", "orders", bytes(size))
            assert channel.basic_get("orders", auto_ack=True)[2] == bytes(size)


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_relayed_client_is_listed_with_its_address_and_tls(node: DeskNode, authority: Authority, protocol: str) -> None:
    url = f"amqps://guest:guest@localhost:{node.tls_port}/t1?cacertfile={authority.ca}"
    with (
        connect(url, protocol=protocol, name="web-1"),
        connect(node.url("t1")) as onlooker,
    ):
        rows = onlooker.request("list", kind="connections")["items"]
        (row,) = [row for row in rows if row["user_provided_name"] == "web-1"]
        assert (row["ssl"], row["ssl_protocol"]) == (True, "tlsv1.3")
        assert (row["peer_host"], row["port"]) == ("127.0.0.1", node.tls_port)


@pytest.mark.parametrize("pieces", [1, 7, 100])
def test_input_ahead_by_tls_is_answered_in_order(node: DeskNode, authority: Authority, pieces: int) -> None:
    data = ahead("t1")
    size = len(data) // pieces
    with closing(SecurePeer(node, authority)) as peer:
        for at in range(0, len(data), size):
            peer.socket.sendall(data[at : at + size])
        for answer in ANSWERS:
            assert isinstance(peer.read_method()[1], answer)


def test_refusal_of_the_shard_reaches_the_client(peer: SecurePeer) -> None:
    peer.send(2, commands.Basic.Qos())
    assert peer.refused(0)[0] == 504
    assert peer.is_closed()


def test_client_that_reads_nothing_stops_its_shard_and_no_other_client(
    node: DeskNode, authority: Authority, peer: SecurePeer
) -> None:
    count, size = 400, 100_000
    peer.declare_shared("large")
    with closing(Peer(node.address).open(vhost="t1")) as publisher:
        publisher.channel()
        publisher.confirm()
        for number in range(count):
            publisher.say(publish_frames(1, "", "large", b"%08d" % number + bytes(size - 8)))
            assert isinstance(publisher.answer(), commands.Basic.Ack)
        peer.consume("large", "taker", no_ack=True)
        with closing(SecurePeer(node, authority).open(vhost="t1")) as other:
            other.channel()
            assert other.is_well()
        for number in range(count):
            peer.expect(1, commands.Basic.Deliver)
            assert peer.content()[1] == b"%08d" % number + bytes(size - 8)


def fill(peer: SecurePeer, size: int) -> int:
    """Publish until the buffers of the system and of the relay are full; return the number of whole messages."""
    peer.socket.settimeout(1.0)
    for sent in range(1000):
        try:
            peer.socket.sendall(publish_frames(1, "", "stopped", b"%08d" % sent + bytes(size - 8)))
        except TimeoutError:
            return sent
    return 1000


def test_client_of_a_stopped_shard_is_read_no_more_and_loses_nothing(node: DeskNode, peer: SecurePeer) -> None:
    peer.declare_shared("stopped")
    size = 100_000
    before = node.state()["rss"]
    os.kill(node.pids[1], signal.SIGSTOP)
    try:
        sent = fill(peer, size)
        assert sent < 1000
        assert node.state()["rss"] - before < 8_000_000
    finally:
        os.kill(node.pids[1], signal.SIGCONT)
    with closing(Peer(node.address).open(vhost="t1")) as other:
        other.channel()
        eventually(lambda: other.depth("stopped") == sent, "all whole messages in the queue")
        for number in range(sent):
            assert other.get("stopped")[1].startswith(b"%08d" % number)


def test_end_of_a_client_without_a_close_reaches_the_shard(node: DeskNode, peer: SecurePeer) -> None:
    peer.declare("mine")
    with closing(Peer(node.address).open(vhost="t1")) as other:
        other.channel()
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.socket.close()

        def is_gone() -> bool:
            number = other.channel(len(gone) + 2)
            gone.append(number)
            other.send(number, commands.Queue.Declare(queue="mine", passive=True))
            close = other.read_method()[1]
            assert isinstance(close, commands.Channel.Close)
            other.send(number, commands.Channel.CloseOk())
            return close.reply_code == 404

        gone: list[int] = []
        eventually(is_gone, "the exclusive queue of a client that is gone")


def test_client_behind_a_flood_of_key_updates_is_answered(node: DeskNode, authority: Authority, tmp_path: Path) -> None:
    close = method_frame(0, commands.Connection.Close(200, "", 0, 0))
    purged, closed = b"\x00\x32\x00\x1f", b"\x00\x0a\x00\x33"
    with socket.create_connection(("127.0.0.1", node.tls_port), PATIENCE) as sock:
        maker = RecordMaker(authority.trusting(), tmp_path)
        maker.shake_hands(sock)
        heard = b""

        def hear(wanted: bytes) -> None:
            nonlocal heard
            while wanted not in heard:
                part = maker.decrypted(sock)
                assert part, heard
                heard += part

        sock.sendall(maker.record(DATA, ahead("t1").removesuffix(close)))
        hear(purged)
        sock.sendall(b"".join([maker.key_update() for _ in range(2_000)]) + maker.record(DATA, close))
        hear(closed)


def test_end_of_a_shard_reaches_its_clients(tmp_path: Path) -> None:
    authority = localhost(tmp_path)
    with desk_node(tmp_path, *settings_file(tmp_path, TLS_SETTINGS)) as node:
        with closing(SecurePeer(node, authority)) as first, closing(SecurePeer(node, authority)) as second:
            first.open(vhost="t1").channel()
            second.open(vhost="t0").channel()
            os.kill(node.pids[1], signal.SIGKILL)
            assert first.is_closed()
            assert second.is_well()
            assert node.state()["relays"] == 1
        eventually(lambda: node.state()["relays"] == 0, "a desk without relays")


def test_client_without_tls_is_refused_at_the_port_of_tls(node: DeskNode) -> None:
    with closing(Peer(("127.0.0.1", node.tls_port))) as peer:
        peer.say(ahead("t1"))
        assert peer.is_closed()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_of_tls_are_relayed_alike(node: DeskNode, authority: Authority, version: ssl.TLSVersion) -> None:
    context = authority.trusting()
    context.minimum_version = context.maximum_version = version
    with closing(Peer(("127.0.0.1", node.tls_port))) as peer:
        peer.socket = context.wrap_socket(peer.socket, server_hostname="localhost")
        peer.open(vhost="t1").channel()
        assert peer.is_well()
