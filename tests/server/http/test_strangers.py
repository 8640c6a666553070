"""Requests before a login: parsed in slices, malformed ones answered, and long work charged."""

from __future__ import annotations

import socket

import pytest

from penstock.server.http.connections import HEAD_LINES
from tests.support.brokers import BrokerProcess, eventually
from tests.support.http_client import Web, received

CHUNKED = b"Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
MALFORMED = {
    "chunk of a HEAD": b"HEAD / HTTP/1.1\r\n" + CHUNKED + b"zz\r\n",
    "chunk of a HEAD of the API": b"HEAD /api/overview HTTP/1.1\r\n" + CHUNKED + b"zz\r\n",
    "chunk of a CONNECT": b"CONNECT /x HTTP/1.1\r\n" + CHUNKED + b"zz\r\n",
    "chunk of a GET": b"GET / HTTP/1.1\r\n" + CHUNKED + b"zz\r\n",
    "chunk of a POST": b"POST /api/definitions HTTP/1.1\r\n" + CHUNKED + b"5\r\nabcdefg\r\n",
    "trailer": b"GET / HTTP/1.1\r\n" + CHUNKED + b"0\r\nno colon\r\n\r\n",
    "octets behind a HEAD": b"HEAD / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabcGARBAGE\0\r\n\r\n",
    "method": b"\0\1 / HTTP/1.1\r\n\r\n",
    "target": b"GET \xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "version": b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "length": b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    "upgrade": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\0\0",
    "upgrade of a HEAD": b"HEAD / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n" + CHUNKED + b"zz\r\n",
}


def all_received(client: socket.socket) -> bytes:
    """Return what comes until the broker closes the socket."""
    found = b""
    while part := client.recv(65536):
        found += part
    return found


@pytest.mark.slow
@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_request_is_answered_without_a_traceback(served: BrokerProcess, web: Web, what: str) -> None:
    with web.connected() as client:
        client.sendall(MALFORMED[what])
        client.settimeout(20)
        try:
            answer = all_received(client)
        except ConnectionResetError:
            answer = b"HTTP/1.1 400"  # The octets behind the request reset the socket.
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 200", b"HTTP/1.1 401", b"HTTP/1.1 404", b"HTTP/1.1 405"))
    if what.startswith("chunk of a HEAD"):
        assert answer.endswith(b"\r\n\r\n"), "an answer to HEAD has no body"
    assert "Traceback" not in served.log()


@pytest.mark.parametrize("trailers", [False, True])
def test_head_with_too_many_lines_is_refused(web: Web, trailers: bool) -> None:
    lines = b"".join(b"header-%d: value\r\n" % number for number in range(8 * HEAD_LINES))
    head = b"POST /api/definitions HTTP/1.1\r\nHost: localhost\r\n"
    with web.connected() as client:
        client.sendall(head + (b"Transfer-Encoding: chunked\r\n\r\n0\r\n" if trailers else b"") + lines)
        answer = client.recv(65536)
    assert answer.startswith(b"HTTP/1.1 4")
    assert trailers or answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large")


def test_head_with_many_lines_in_pieces_is_read(web: Web) -> None:
    lines = b"".join(b"header-%d: value\r\n" % number for number in range(HEAD_LINES - 10))
    with web.connected() as client:
        client.sendall(b"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\n" + lines)
        client.sendall(f"Authorization: {web.login}\r\n\r\n".encode())
        assert received(client, b"}").startswith(b"HTTP/1.1 200")


def test_requests_sent_at_once_are_answered_in_order(web: Web) -> None:
    count = 50
    with web.connected() as client:
        client.sendall(web.whole() * (count - 1) + web.whole(more="Connection: close\r\n"))
        assert all_received(client).count(b"HTTP/1.1 200") == count


def test_body_in_very_many_chunks_is_read_in_slices(web: Web) -> None:
    body = b'{"users":[' + b" " * 20_000 + b"]}"
    chunks = b"".join(b"1\r\n%c\r\n" % octet for octet in body) + b"0\r\n\r\n"
    with web.connected() as client:
        client.sendall(
            f"POST /api/definitions HTTP/1.1\r\nHost: localhost\r\nAuthorization: {web.login}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        client.sendall(chunks)
        assert received(client, b"\r\n\r\n").startswith(b"HTTP/1.1 204")


def test_request_before_the_end_of_its_peer_is_answered(web: Web) -> None:
    with web.connected() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        assert received(client, b"</html>\n").startswith(b"HTTP/1.1 200")


def test_flood_of_strangers_leaves_users_served(web: Web) -> None:
    crowd = [web.connected() for _ in range(40)]
    for client in crowd:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 200)
    try:
        for _ in range(5):
            eventually(web.answers, "the API answers")
    finally:
        for client in crowd:
            client.close()
