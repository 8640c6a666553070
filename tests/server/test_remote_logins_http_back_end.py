"""The HTTP back end: a real server that answers, denies, hangs, trickles, answers rubbish, or is away."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.access.back_end import BackEndError
from penstock.client.errors import LoginRefused
from penstock.server.remote_logins import AWAY_S, HttpBackEnd
from penstock.server.server import Server
from penstock.server.web_client import ANSWER_OCTETS
from penstock.settings.config import load
from penstock.settings.file_tables import BackEndSettings
from tests.support.back_ends import PASSWORDS, BackEndServer, back_end
from tests.support.http_client import Web
from tests.support.raw_channel import Connection


@pytest.fixture
def server() -> Iterator[BackEndServer]:
    with back_end() as found:
        yield found


CLIENTS: list[HttpBackEnd] = []


class Clock:
    """Time that passes as the real one does, and can be put on."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture(autouse=True)
def clients() -> Iterator[None]:
    """Close the clients of a test."""
    yield
    while CLIENTS:
        CLIENTS.pop().close()


def client(server: BackEndServer, method: str = "post", timeout_s: float = 30.0) -> tuple[HttpBackEnd, Clock]:
    settings = BackEndSettings()
    settings.user_path, settings.vhost_path = server.url("/auth/user"), server.url("/auth/vhost")
    settings.http_method, settings.timeout_s = method, timeout_s
    clock = Clock()
    CLIENTS.append(HttpBackEnd(settings, clock))
    return CLIENTS[-1], clock


@pytest.mark.parametrize("method", ["post", "get"])
def test_questions_have_the_fields_of_rabbitmqs_plugin(server: BackEndServer, method: str) -> None:
    asks, _ = client(server, method)
    assert asks.tags_of("root", "toor") == ["administrator", "management"]
    assert asks.tags_of("é&=", PASSWORDS["é&="]) == []
    assert asks.entered("root", ["/", "mars", "moon"], "10.0.0.1", ["a", "b"]) == ["/", "moon"]
    assert [each[:2] for each in server.asked] == [(method.upper(), "/auth/user")] * 2 + [
        (method.upper(), "/auth/vhost")
    ] * 3
    assert server.asked[0][2] == {"username": "root", "password": "toor"}
    assert server.asked[3][2] == {"username": "root", "vhost": "mars", "ip": "10.0.0.1", "tags": "a b"}
    assert server.connections == 1, "it is kept open"


@pytest.mark.parametrize("answer", [b"ALLOW", b"Allow \r\n", b" allow"])
def test_case_and_space_around_an_answer_do_not_matter(server: BackEndServer, answer: bytes) -> None:
    server.answer = answer
    assert client(server)[0].tags_of("x", "y") == []


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (b"deny", 200, "the back end denies it"),
        (b"DENY because", 200, "the back end denies it: 'because'"),
        (b"", 200, "answered neither allow nor deny, but ''"),
        (b"allowed", 200, "neither allow nor deny"),
        (b"<html>\x00\xff", 200, "neither allow nor deny"),
        (b"allow", 500, "answered with status 500"),
        (b"allow", 302, "answered with status 302"),
        (b"allow " + b"x" * ANSWER_OCTETS, 200, f"answered with more than {ANSWER_OCTETS} bytes"),
    ],
)
def test_back_end_answer_other_than_allow_is_a_refusal(
    server: BackEndServer, answer: bytes, status: int, reason: str
) -> None:
    server.answer, server.status = answer, status
    with pytest.raises(BackEndError, match=reason):
        client(server)[0].tags_of("x", "y")


def test_connection_that_the_server_has_closed_is_opened_again(server: BackEndServer) -> None:
    asks, _ = client(server)
    assert asks.tags_of("root", "toor")
    asks._connection(server.url("/"))._http.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
    assert asks.tags_of("root", "toor")
    assert server.connections == 2


def test_url_with_tls_and_one_without_it_share_no_connection(server: BackEndServer) -> None:
    asks, _ = client(server)
    plain = asks._connection("http://localhost/auth/user")
    assert asks._connection("http://localhost/auth/vhost") is plain
    assert asks._connection("https://localhost/auth/vhost") is not plain


@pytest.mark.parametrize("trickles", [False, True])
def test_server_that_hangs_or_trickles_is_left_at_the_deadline(server: BackEndServer, trickles: bool) -> None:
    asks, clock = client(server, timeout_s=0.2)
    if trickles:
        server.trickles = True
    else:
        server.may_answer.clear()
    with pytest.raises(BackEndError, match="cannot be asked: "):
        asks.tags_of("root", "toor")
    server.trickles = False
    server.may_answer.set()
    clock.ahead = -1000.0  # As if no time had passed since, however slow the machine is.
    with pytest.raises(BackEndError, match="the back end was away a moment ago"):
        asks.tags_of("root", "toor")
    clock.ahead = AWAY_S
    asks._settings.timeout_s = 30.0
    assert asks.tags_of("root", "toor")


def test_unreachable_back_end_is_reported() -> None:
    with back_end() as gone:
        asks, _ = client(gone)
    with pytest.raises(BackEndError, match=r"'http://127.0.0.1:\d+/auth/user' cannot be asked: .*refused"):
        asks.tags_of("root", "toor")


async def test_hanging_back_end_delays_no_other_users(
    server: BackEndServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(
        "[broker]\nvhosts = ['/', 'moon']\nhandshake-s = 60\n"
        + server.settings(timeout_s=60, cache_s=3600)
        + "permissions = {configure = '^{username}-', write = '.*', read = '.*'}\n[users]\nlocal = 'hush'\n"
    )
    caplog.set_level("DEBUG", "penstock")
    async with Server("127.0.0.1:0", http="127.0.0.1:0", settings=load(file)) as broker:
        await asyncio.to_thread(_log_in, broker.url, broker.http_url)
        server.may_answer.clear()
        server.is_asked.clear()
        waiting = asyncio.create_task(asyncio.to_thread(_refused, broker.url, "anna", "other"))
        await asyncio.to_thread(server.is_asked.wait)
        await asyncio.to_thread(_go_on, broker.url)
        server.answer = b"rubbish"
        server.may_answer.set()
        await waiting
    assert "the back end denies it" in caplog.text
    assert "secret" not in caplog.text


def _url(url: str, user: str, password: str, vhost: str = "") -> str:
    return url.replace("amqp://", f"amqp://{user}:{password}@") + vhost


def _log_in(url: str, http_url: str) -> None:
    with Connection(_url(url, "anna", "secret")) as connection:
        channel = connection.channel()
        channel.queue_declare("anna-1")
        with pytest.raises(Exception, match="configure access to queue 'other' in vhost '/' refused for user 'anna'"):
            channel.queue_declare("other")
    with pytest.raises(Exception, match="access to vhost 'moon' refused for user 'anna'"):
        Connection(_url(url, "anna", "secret", "moon"))
    with Connection(_url(url, "root", "toor", "moon")) as connection:
        connection.channel()
    _refused(url, "anna", "wrong")
    web = Web(http_url, "root", "toor")
    assert web.get("/whoami") == {"name": "root", "tags": ["administrator", "management"]}
    assert Web(http_url, "anna", "secret").ask("GET", "/whoami").status == 401, "it has no tag"


def _refused(url: str, user: str, password: str) -> None:
    with pytest.raises(LoginRefused):
        Connection(_url(url, user, password))


def _go_on(url: str) -> None:
    """Users of the file, and those who are remembered, need no answer."""
    for user, password in (("local", "hush"), ("anna", "secret")):
        with Connection(_url(url, user, password)) as connection:
            connection.channel()
