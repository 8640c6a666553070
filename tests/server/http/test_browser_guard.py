"""Requests that a web page made in an operator's browser, recognised by Host and Origin."""

import asyncio
import socket

import pytest

import penstock
from penstock.server.http.browser_guard import SECURITY_HEADERS, _without_port
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from tests.support.brokers import BrokerProcess
from tests.support.http_client import Web


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:15672",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[evil]",
        "0x7f.1",
        "[::1]x",
        "[::1]:x",
        "[::1].evil.example",
        "[::1]@evil.example",
        "localhost:@evil.example",
        "localhost:1:2",
        "::1",
    ],
)
def test_host_of_a_foreign_name_is_refused_though_the_login_is_right(web: Web, host: str) -> None:
    answer = web.ask("GET", "/overview", headers={"Host": host})
    assert answer.status == 421
    assert "http-hosts" in answer.reason


def test_address_localhost_and_the_name_of_the_machine_are_ours(web: Web) -> None:
    port = web.address.rpartition(":")[2]
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]", "10.1.2.3", socket.gethostname()):
        for host in (name, f"{name}:{port}"):
            assert web.ask("GET", "/overview", headers={"Host": host}).status == 200, host


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:1", "x", "http://["]
)
def test_page_of_another_site_may_ask_nothing_and_learns_nothing(web: Web, origin: str) -> None:
    for method, path in (("GET", "/overview"), ("PUT", "/queues/%2F/evil"), ("OPTIONS", "/overview")):
        answer = web.ask(method, path, headers={"Origin": origin, "Access-Control-Request-Method": "PUT"})
        assert answer.status == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert web.ask("GET", "/queues/%2F/evil").status == 404


def test_page_of_the_broker_itself_may_ask(web: Web) -> None:
    assert web.ask("GET", "/overview", headers={"Origin": f"http://{web.address}"}).status == 200


def test_response_has_the_security_headers(web: Web) -> None:
    for answer in (web.ask("GET", "/overview"), web.ask("GET", "/nothing"), web.ask("GET", "/overview", login=False)):
        assert {name: answer.headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS
        assert "strict-transport-security" not in answer.headers, "without TLS"


async def test_configured_hosts_and_origins_are_admitted() -> None:
    settings = Settings(
        flow_log=NO_LOG, http_hosts=["*.svc.cluster.local"], http_origins=["https://console.example.com/"]
    )
    async with penstock.Broker(listen="127.0.0.1:0", http="127.0.0.1:0", settings=settings) as broker:
        web = Web(broker.http_url)

        def ask() -> None:
            ours = {"Host": "penstock.prod.svc.cluster.local:15672"}
            assert web.ask("GET", "/overview", headers=ours).status == 200
            site = {"Origin": "https://console.example.com"}
            answer = web.ask("GET", "/overview", headers=site)
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, site["Origin"])
            preflight = {
                **site,
                "Access-Control-Request-Method": "PUT",
                "Access-Control-Request-Headers": "authorization",
            }
            answer = web.ask("OPTIONS", "/queues/%2F/q", headers=preflight, login=False)
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, site["Origin"])
            assert web.ask("GET", "/overview", headers={"Origin": "https://evil.example"}).status == 403

        await asyncio.to_thread(ask)


LENGTHS = (
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
)


@pytest.mark.parametrize(
    "request_",
    [
        *(b"POST /api/definitions HTTP/1.1\r\nHost: localhost\r\n" + length for length in LENGTHS),
        b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /api/overview HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b: folded\x00\r\n\r\n",
    ],
)
def test_ambiguous_request_is_refused_and_the_rest_is_not_read(
    served: BrokerProcess, web: Web, request_: bytes
) -> None:
    host, port = web.address.split(":")
    hidden = b"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + web.login.encode() + b"\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(request_ + hidden)
        said = b""
        while part := client.recv(65536):
            said += part
    assert said.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")), said[:100]
    assert said.count(b"HTTP/1.1") == 1, "one answer, and the connection is closed"


def test_port_is_taken_off_a_host() -> None:
    assert [_without_port(host) for host in ("a:1", "a", "[::1]:1", "[::1]", "")] == ["a", "a", "[::1]", "[::1]", ""]
