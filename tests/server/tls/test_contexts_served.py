"""Certificates of a whole broker: as clients see them, their reload, and warnings."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.client.errors import ConnectError, ControlError
from penstock.client.tls import tls_context
from penstock.settings.config import load
from penstock.sync import connect
from tests.client.conversations import both_protocols
from tests.support.brokers import BrokerProcess, eventually, penstock_command
from tests.support.certificates import SETTINGS, Authority, localhost, serving_tls
from tests.support.http_client import Web
from tests.support.raw_channel import Connection
from tests.support.raw_client import peer_of, publish_frames


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[BrokerProcess]:
    with serving_tls(authority.folder) as process:
        yield process
        assert "Traceback" not in process.log()


@pytest.fixture(autouse=True)
def _right_certificate(authority: Authority) -> Iterator[None]:
    """Keep the files that a test changes."""
    kept = {path: path.read_bytes() for path in (authority.folder / "server.pem", authority.key("server"))}
    yield
    for path, octets in kept.items():
        path.write_bytes(octets)


def tls_url(broker: BrokerProcess) -> str:
    return f"amqps://localhost:{broker.tls_port}"


def days_shown(broker: BrokerProcess, authority: Authority) -> int:
    """Return the days left of the certificate that a new connection is shown."""
    with (
        socket.create_connection(("127.0.0.1", broker.tls_port)) as sock,
        authority.trusting().wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        shown = tls.getpeercert()
        ends = ssl.cert_time_to_seconds(str(shown["notAfter"]))
        return round((ends - 1_577_836_800) / 86_400)


def test_connection_by_tls_is_shown_with_its_tls_and_its_certificate(
    broker: BrokerProcess, authority: Authority
) -> None:
    with Connection(tls_url(broker), tls=authority.trusting("client")) as connection, Connection(broker.url):
        body = bytes(3_000_000)
        channel = connection.channel()
        queue = channel.queue_declare(exclusive=True)[0]
        channel.publish(body, routing_key=queue)
        got = eventually(lambda: channel.get(queue), "the message")
        assert got.body == body
        web = Web(broker.https, tls=authority.trusting())
        by_tls, plain = sorted(web.get("/connections"), key=lambda each: not each["ssl"])
        assert (by_tls["ssl"], by_tls["ssl_protocol"], plain["ssl"]) == (True, "tlsv1.3", False)
        assert by_tls["peer_cert_subject"].startswith("CN=ada,")
        assert plain["ssl_protocol"] is None
    protocols = {each["protocol"] for each in web.get("/overview")["listeners"]}
    assert protocols == {"amqp", "amqp/ssl", "https"}


class Metered:
    """A socket that counts its octets."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self.sent = self.received = 0

    def sendall(self, data: bytes) -> None:
        self._sock.sendall(data)
        self.sent += len(data)

    def recv(self, most: int) -> bytes:
        data = self._sock.recv(most)
        self.received += len(data)
        return data

    def settimeout(self, seconds: float) -> None:
        self._sock.settimeout(seconds)

    def close(self) -> None:
        self._sock.close()


def test_traffic_of_a_tls_connection_counts_the_bytes_inside_of_tls(
    broker: BrokerProcess, authority: Authority
) -> None:
    with peer_of(("127.0.0.1", broker.tls_port)) as peer:
        sock = authority.trusting().wrap_socket(peer.socket, server_hostname="localhost")
        meter = Metered(sock)
        peer.socket = meter
        peer.open()
        peer.channel(1)
        queue = peer.declare()
        peer.say(publish_frames(1, "", queue, bytes(300_000)))
        assert peer.is_well()
        [found] = [each for each in Web(broker.https, tls=authority.trusting()).get("/connections") if each["ssl"]]
        assert (found["recv_oct"], found["send_oct"]) == (meter.sent, meter.received)


@both_protocols
def test_large_body_passes_by_tls_both_ways(broker: BrokerProcess, authority: Authority, protocol: str) -> None:
    body = random.Random(1).randbytes(3_000_001)
    with connect(tls_url(broker), tls=authority.trusting(None), protocol=protocol) as connection:
        queue = connection.declare_queue(f"large-{protocol}")
        connection.publisher(queue).send(body)
        with connection.receiver(queue) as receiver:
            delivery = receiver.receive(60)
            assert delivery is not None
            assert delivery.body == body


def test_client_without_tls_is_named_in_the_log(broker: BrokerProcess) -> None:
    with socket.create_connection(("127.0.0.1", broker.tls_port)) as sock:
        sock.sendall(b"AMQP\0\0\x09\x01")
        assert sock.recv(10) == b""
    broker.await_logged("the client does not speak TLS; let it use amqps://")
    with pytest.raises(ConnectError):
        Connection(f"amqp://127.0.0.1:{broker.tls_port}")


def test_reload_by_command_serves_the_new_certificate_and_drops_no_connection(
    broker: BrokerProcess, authority: Authority
) -> None:
    with connect(tls_url(broker), tls=authority.trusting(None), protocol="amqp091") as control:
        before = days_shown(broker, authority)
        authority.issue("server", "localhost", "127.0.0.1", days=100)
        done = penstock_command("tls", "reload", "--url", broker.tls_url, "--cacert", str(authority.ca))
        assert done.returncode == 0, done.stderr
        assert "server.pem: localhost, 127.0.0.1, valid for 99 days" in done.stdout
        assert days_shown(broker, authority) == before - 265
        assert [each["days_left"] for each in control.status()["certificates"]] == [99]
    broker.await_logged("settings of tls were reloaded by user 'guest'")


def test_reload_of_a_certificate_that_has_expired_keeps_the_old_one_and_says_why(
    broker: BrokerProcess, authority: Authority
) -> None:
    before = days_shown(broker, authority)
    authority.issue("server", "localhost", days=-2)
    with connect(broker.url, protocol="amqp091") as control:
        with pytest.raises(ControlError, match="has expired on") as refused:
            control.request("tls.reload")
        assert refused.value.name == "precondition-failed"
        assert days_shown(broker, authority) == before


def test_reload_by_signal_reads_certificates_and_reports_an_early_expiry(
    broker: BrokerProcess, authority: Authority
) -> None:
    authority.issue("fresh", "localhost", "127.0.0.1", days=10)
    file = authority.folder / "penstock.toml"
    file.write_text(SETTINGS.replace("server", "fresh"))
    broker.process.send_signal(signal.SIGHUP)
    broker.await_logged("reload: the certificates were read again; new connections use them")
    broker.await_logged("expires in 9 days")
    shown = broker.command("status")
    assert "certificate 'fresh" not in shown
    assert "fresh.pem' expires in 9 days" in shown
    file.write_text(SETTINGS.replace('"server-key.pem"', '"client-key.pem"'))
    broker.process.send_signal(signal.SIGHUP)
    broker.await_logged("reload: the old certificates stay: [tls] key")
    file.write_text(SETTINGS)
    broker.process.send_signal(signal.SIGHUP)
    eventually(lambda: len(broker.logged("the certificates were read again")) == 2, "the old table again")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_reload_revokes_certificates_of_clients_also_for_sessions_of_tls_from_before(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    authority = localhost(tmp_path)
    authority.revoke()
    with serving_tls(tmp_path, SETTINGS + 'crl = "crl.pem"\n') as broker:
        client = authority.trusting("client")
        client.maximum_version = version
        opened = Connection(tls_url(broker), tls=client)
        session = session_of(broker, client)
        assert session is not None
        assert session_of(broker, client, session) is not None
        authority.revoke("client")
        broker.command("tls", "reload")
        for before in (None, session):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                session_of(broker, client, before)
        broker.await_logged("the client's certificate is refused: certificate revoked")
        with opened:  # It stays until somebody closes it.
            assert opened.channel().queue_declare(exclusive=True)
        authority.folder.joinpath("crl.pem").write_text("nothing")
        assert "the old certificates stay: [tls] crl" in broker.refusal("tls", "reload")


def session_of(
    broker: BrokerProcess, client: ssl.SSLContext, before: ssl.SSLSession | None = None
) -> ssl.SSLSession | None:
    """Connect by TLS; return the session, which may be resumed. Raises ssl.SSLError and ConnectionError."""
    with (
        socket.create_connection(("127.0.0.1", broker.tls_port)) as sock,
        client.wrap_socket(sock, server_hostname="localhost", session=before) as tls,
    ):
        tls.sendall(b"AMQP\0\0\x09\x01")
        assert tls.recv(10)
        assert tls.session_reused is (before is not None)
        return tls.session


async def test_broker_may_listen_with_tls_alone(authority: Authority) -> None:
    file = authority.folder / "alone.toml"
    file.write_text(SETTINGS.replace('http-tls = "127.0.0.1:0"', "listen = []"))
    async with penstock.Broker(settings=load(file)) as broker:
        assert broker.addresses == []
        assert broker.url.startswith("amqps://127.0.0.1:")
        url = f"{broker.url}?cacertfile={authority.ca}"
        connection = await asyncio.to_thread(Connection, url)
        await asyncio.to_thread(connection.close)


async def test_connection_without_a_handshake_is_closed_and_delays_no_client(authority: Authority) -> None:
    """A hello without an end, and a socket that says nothing."""
    file = authority.folder / "short.toml"
    file.write_text(
        SETTINGS.replace("[tls]", "handshake-s = 1\n[tls]").replace('http-tls = "127.0.0.1:0"', "listen = []")
    )
    async with penstock.Broker(settings=load(file)) as broker:
        port = broker.tls_addresses[0][1]
        begun = time.monotonic()
        strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for _, writer in strangers[:10]:
            writer.write(b"\x16\x03\x01\x02\x00\x01")
        connection = await asyncio.to_thread(Connection, f"{broker.url}?cacertfile={authority.ca}")
        for reader, writer in strangers:
            assert await reader.read() == b""
            writer.close()
        assert time.monotonic() - begun >= 1
        await asyncio.to_thread(connection.close)


def test_unusable_tls_files_of_a_client_are_reported(authority: Authority) -> None:
    with pytest.raises(ValueError, match="the file '/nowhere' for TLS is not there"):
        tls_context("/nowhere")
    with pytest.raises(ValueError, match="cannot be used"):
        tls_context(str(authority.ca), str(authority.folder / "client.pem"), str(authority.key("server")))
