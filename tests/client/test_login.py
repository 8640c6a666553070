"""Logins of the client: mechanisms, certificates, tokens, wrong passwords, and hosts that are no broker."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import penstock
import penstock.sync
from penstock.client.errors import WrongServer
from tests.client.conversations import both_protocols, fresh, url_of
from tests.support.brokers import BrokerProcess, serving, settings_file
from tests.support.certificates import SETTINGS, Authority, localhost, serving_tls
from tests.support.tokens import pem, rsa_key, token

USERS = """
[users]
guest = "guest"
ada = "lovelace"
"""


def with_login(url: str, login: str) -> str:
    """Return a URL with user and password."""
    return f"amqp://{login}@{urlsplit(url).netloc.rpartition('@')[2]}/"


@pytest.fixture(scope="module")
def tls_broker(authority: Authority) -> Iterator[BrokerProcess]:
    with serving_tls(authority.folder, SETTINGS + USERS) as process:
        yield process


def tls_url(broker: BrokerProcess, protocol: str, login: str, **options: object) -> str:
    return f"amqps://{login}@localhost:{broker.tls_port}/?" + url_of("", protocol, **options)[1:]


async def first_message(url: str, is_async: bool) -> None:
    """Send one message with one of the shells."""
    queue = fresh("login")
    if is_async:
        async with penstock.connect(url) as connection:
            await connection.declare_queue(queue, exclusive=True)
            assert (await connection.publisher(queue).send(b"first")).state == "confirmed"
        return

    def send() -> None:
        with penstock.sync.connect(url) as connection:
            connection.declare_queue(queue, exclusive=True)
            assert connection.publisher(queue).send(b"first").state == "confirmed"

    await asyncio.to_thread(send)


both_shells = pytest.mark.parametrize("is_async", [True, False], ids=["asyncio", "blocking"])


@both_shells
@both_protocols
async def test_login_over_tls(tls_broker: BrokerProcess, authority: Authority, protocol: str, is_async: bool) -> None:
    await first_message(tls_url(tls_broker, protocol, "guest:guest", cacertfile=authority.ca), is_async)


@both_shells
async def test_scram_login(broker_url: str, is_async: bool) -> None:
    await first_message(url_of(broker_url, "amqp10", mechanism="SCRAM-SHA-256"), is_async)


@both_shells
async def test_scram_login_over_tls(tls_broker: BrokerProcess, authority: Authority, is_async: bool) -> None:
    options = {"cacertfile": authority.ca, "mechanism": "SCRAM-SHA-256"}
    await first_message(tls_url(tls_broker, "amqp10", "ada:lovelace", **options), is_async)
    with pytest.raises(penstock.LoginRefused):
        await first_message(tls_url(tls_broker, "amqp10", "ada:byron", **options), is_async)


@both_shells
@both_protocols
async def test_wrong_password_is_refused_once(broker_url: str, protocol: str, is_async: bool) -> None:
    url = url_of(with_login(broker_url, "guest:wrong"), protocol)
    with pytest.raises(penstock.LoginRefused) as failure:
        await first_message(url, is_async)
    assert "the broker refuses guest; check user, password and permissions" in str(failure.value)
    assert "wrong" not in str(failure.value)


async def test_wrong_password_is_refused_with_scram(broker_url: str) -> None:
    url = url_of(with_login(broker_url, "guest:wrong"), "amqp10", mechanism="SCRAM-SHA-256")
    with pytest.raises(penstock.LoginRefused) as failure:
        await first_message(url, True)
    assert "the broker refuses guest" in str(failure.value)


@both_shells
async def test_certificate_that_has_expired_is_a_single_sentence(tmp_path: Path, is_async: bool) -> None:
    authority = localhost(tmp_path)
    authority.issue("server", "localhost", days=-1)
    with one_tls_port(authority) as port, pytest.raises(WrongServer) as failure:
        await first_message(f"amqps://guest:guest@localhost:{port}/?cacertfile={authority.ca}", is_async)
    assert "its certificate is not trusted (certificate has expired)" in str(failure.value)


@contextmanager
def one_tls_port(authority: Authority) -> Iterator[int]:
    """Serve a certificate at a port, to clients one after the other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.folder / "server.pem", authority.key("server"))
    with answering(lambda peer: context.wrap_socket(peer, server_side=True).close()) as port:
        yield port


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Accept connections at a port of its own, and give each to a function."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    try:
                        answer(peer)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@both_shells
@both_protocols
async def test_http_server_is_named(protocol: str, is_async: bool) -> None:
    def answer(peer: socket.socket) -> None:
        peer.recv(64)
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    with answering(answer) as port, pytest.raises(penstock.ConnectError) as failure:
        await first_message(url_of(f"amqp://127.0.0.1:{port}/", protocol), is_async)
    assert "an HTTP server answers there; check the port" in str(failure.value)


@both_shells
@both_protocols
async def test_second_host_is_tried_when_the_first_has_no_listener(
    broker_url: str, protocol: str, is_async: bool
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = with_login(broker_url, "").rpartition("@")[2]
        hosts = f"amqp://guest:guest@127.0.0.1:{unused.getsockname()[1]},{place}"
        await first_message(url_of(hosts, protocol), is_async)


@both_shells
@both_protocols
async def test_client_certificate_is_a_login(
    tls_broker: BrokerProcess, authority: Authority, protocol: str, is_async: bool
) -> None:
    folder = authority.folder
    files = {"cacertfile": authority.ca, "certfile": folder / "client.pem", "keyfile": authority.key("client")}
    url = tls_url(tls_broker, protocol, "ada:", mechanism="EXTERNAL", **files)
    await first_message(url, is_async)


@pytest.fixture(scope="module")
def token_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "key.pem").write_bytes(pem(rsa_key()))
    options = settings_file(
        folder, '[broker]\ninitial-frame-max = 16384\n[oauth]\nresource_server_id = "penstock"\nkeys = "key.pem"\n'
    )
    with serving(folder, *options) as process:
        yield process


@both_protocols
async def test_token_is_renewed_before_the_expiry(token_broker: BrokerProcess, protocol: str) -> None:
    renewed = asyncio.Event()
    rights = ("penstock.configure:*/*", "penstock.write:*/*", "penstock.read:*/*")
    given: list[str] = []

    def new_token() -> str:
        lasts = 1.5 if not given else 3600
        given.append(token(*rights, exp=time.time() + lasts))
        if len(given) == 2:
            renewed.set()
        return given[-1]

    url = url_of(f"amqp://anna@{token_broker.host}:{token_broker.port}/", protocol)
    async with penstock.connect(url, token=new_token, reconnect=False) as connection:
        queue = await connection.declare_queue(fresh(), exclusive=True)
        publisher = connection.publisher(queue)
        await renewed.wait()
        assert (await publisher.send(b"after")).state == "confirmed"
        await connection.declare_queue(fresh(), exclusive=True)  # An answer after that to the renewal.
    assert len(given) == 2
    assert token_broker.await_logged("PST-2007")


async def test_token_of_a_function_is_that_of_the_login(token_broker: BrokerProcess) -> None:
    url = f"amqp://anna@{token_broker.host}:{token_broker.port}/"
    with pytest.raises(penstock.LoginRefused):
        await penstock.connect(url, token=lambda: token("penstock.read:*/*", key=rsa_key("another")))
