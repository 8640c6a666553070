"""Clients without a login at the HTTP API: bounded in sockets and time, and health checks are answered."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from penstock.flow.pool import PoolHolder, Pools
from penstock.server.http.admission import Admission
from penstock.settings.pools import HTTP_SOCKETS
from tests.support.brokers import BrokerProcess, eventually
from tests.support.http_client import Web, received
from tests.support.stalls import undisturbed

HALF = b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\n"


def is_open(client: socket.socket) -> bool:
    """Tell whether the broker has closed a socket, without waiting."""
    client.setblocking(False)
    try:
        return client.recv(65536) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_http_half_requests_leave_logins_of_users_alone(own_served: BrokerProcess) -> None:
    web, begun = Web(own_served.http), time.monotonic()
    with contextlib.ExitStack() as sockets:
        strangers = [sockets.enter_context(web.connected()) for _ in range(256)]
        for stranger in strangers:
            with contextlib.suppress(ConnectionError):
                stranger.sendall(HALF)
        assert web.get("/whoami")["name"] == "guest"
        assert web.get("/health/checks/alarms") == {"status": "ok"}
        eventually(lambda: sum(map(is_open, strangers)) <= 64, "64 of them stay at most")
    eventually(lambda: own_served.logged("too many sockets without a login"), "it is told")
    assert len(own_served.logged("too many sockets")) <= time.monotonic() - begun + 2, "a line a second"


@pytest.mark.slow
def test_stranger_has_a_bounded_time_for_any_requests(own_served: BrokerProcess) -> None:
    web = Web(own_served.http)
    with web.connected() as slow, web.connected() as busy:
        slow.sendall(HALF)
        busy.sendall(b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for client in (slow, busy):  # Both are closed by the broker, without another octet from here.
            with contextlib.suppress(ConnectionResetError):
                while client.recv(4096):
                    pass


OF_OPERATOR = 3 * HTTP_SOCKETS.limit // 4
"""Sockets of the only user, who is an operator."""


def test_sockets_of_users_are_kept_when_strangers_come_and_an_idle_one_makes_room(own_served: BrokerProcess) -> None:
    """A socket that is idle for 15 seconds is closed for that, so this is no test on a machine that stands still."""
    web = Web(own_served.http)

    def crowd() -> None:
        with contextlib.ExitStack() as sockets:
            users = []
            for _ in range(OF_OPERATOR):
                users.append(sockets.enter_context(web.connected()))
                users[-1].sendall(web.whole())
                assert received(users[-1], b"}").startswith(b"HTTP/1.1 200")
            for _ in range(100):
                sockets.enter_context(web.connected())
            assert web.get("/whoami")["name"] == "guest"
            eventually(lambda: not is_open(users[0]), "it makes room")
            assert [is_open(user) for user in users[1:]] == [True] * (OF_OPERATOR - 1)

    undisturbed(crowd, own_served)


def test_request_is_refused_and_health_check_allowed_at_the_socket_bound(
    own_served: BrokerProcess,
) -> None:
    web = Web(own_served.http)
    start = (
        f"POST /api/definitions HTTP/1.1\r\nHost: localhost\r\nAuthorization: {web.login}\r\nContent-Length: 2\r\n\r\n"
    )
    with contextlib.ExitStack() as sockets:
        busy = []
        for _ in range(OF_OPERATOR):
            busy.append(sockets.enter_context(web.connected()))
            busy[-1].sendall(web.whole())
            assert received(busy[-1], b"}").startswith(b"HTTP/1.1 200")
            busy[-1].sendall(start.encode())
        eventually(lambda: web.ask("GET", "/whoami").status == 503, "all are busy")
        for path in ("/health/checks/alarms", "/healthchecks/node", "/aliveness-test/%2F"):
            answer = web.ask("GET", path)
            assert (answer.status, answer.headers["connection"]) == (200, "close")
        for client in busy:
            client.sendall(b"{}")
            assert received(client, b"\r\n\r\n").startswith(b"HTTP/1.1 204")
        assert web.get("/whoami")["name"] == "guest"


@pytest.mark.parametrize("path", ["/overview", "/nothing", "/queues/%2F/unknown", "/definitions/x/y/z", ""])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "NONSENSE"])
def test_strangers_get_the_same_answer_at_all_paths(web: Web, method: str, path: str) -> None:
    answer = web.ask(method, path, login=False)
    expected = web.ask("GET", "/overview", login=False)
    assert expected.status == 401
    assert (answer.status, answer.body) == (401, expected.body)
    assert {**answer.headers, "date": ""} == {**expected.headers, "date": ""}


def test_users_get_404_and_405_for_unknown_paths_and_methods(web: Web) -> None:
    assert web.ask("GET", "/nothing").status == 404
    assert web.ask("PATCH", "/overview").status == 405


@pytest.mark.parametrize("header", ["X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "Via: 1.1 proxy"])
def test_forwarded_headers_of_a_proxy_make_no_client_local(web: Web, header: str) -> None:
    name, value = header.split(": ")
    assert web.ask("GET", "/whoami").status == 200
    assert web.ask("GET", "/whoami", headers={name: value}).status == 401


def test_http_wrong_passwords_under_delay_leave_other_requests_alone(own_served: BrokerProcess) -> None:
    web, eve = Web(own_served.http), Web(own_served.http, "eve", "wrong")
    with contextlib.ExitStack() as sockets:
        for _ in range(200):
            stranger = sockets.enter_context(web.connected())
            with contextlib.suppress(ConnectionError):
                stranger.sendall(eve.whole())
        assert web.get("/health/checks/alarms") == {"status": "ok"}


class Waiting:
    """A socket whose request is being answered, or is not."""

    def __init__(self, busy: bool) -> None:
        self.host = "127.0.0.1"
        self.busy = busy
        self.closed = False

    def is_busy(self) -> bool:
        return self.busy

    def hang_up(self) -> None:
        self.closed = True


def test_busy_sockets_of_one_user_leave_sockets_to_others_and_operators() -> None:
    admission = Admission(Pools())
    eve, bob, operator = PoolHolder("eve", ""), PoolHolder("bob", ""), PoolHolder("root", "", True)
    admitted = [admission.log_in(Waiting(True), eve) for _ in range(200)]
    assert admitted.count(True) == 90
    refusal = admission.refusal(eve)
    assert "HTTP: sockets of users: user 'eve' has 90 and one more does not fit into its share" in refusal
    assert [admission.log_in(Waiting(True), bob) for _ in range(45)] == [True] * 45
    assert [admission.log_in(Waiting(True), operator) for _ in range(40)] == [True] * 40


def test_idle_socket_of_the_user_with_most_makes_room() -> None:
    admission = Admission(Pools())
    eve, bob = PoolHolder("eve", ""), PoolHolder("bob", "")
    idle = [Waiting(False) for _ in range(80)]
    assert all(admission.log_in(socket, eve) for socket in idle)
    while not any(socket.closed for socket in idle):
        assert admission.log_in(Waiting(True), bob)
    assert [socket.closed for socket in idle[:3]] == [True, True, False]
