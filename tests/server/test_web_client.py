"""Connection to a web server: requests with a deadline, answers with a bound, and a connection that is used again."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator

import pytest

from penstock.server.web_client import ANSWER_OCTETS, WebConnection
from tests.support.hook_server import HookServer, hook_server


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as found:
        yield found


@pytest.fixture
def connection(server: HookServer) -> Iterator[WebConnection]:
    made = WebConnection(server.url(), ssl.create_default_context(), time.monotonic)
    yield made
    made.close()


def test_request_has_its_body_and_headers_and_returns_status_and_answer(
    connection: WebConnection, server: HookServer
) -> None:
    server.status, server.answer = 202, b"later"
    ends = time.monotonic() + 60
    assert connection.ask("POST", "/at?a=b", ends, b"body", {"X-Some": "thing"}) == (202, b"later")
    path, headers, body = server.got.get(timeout=60)
    assert (path, headers["X-Some"], body) == ("/at?a=b", "thing", b"body")


def test_connection_is_used_for_consecutive_requests(connection: WebConnection) -> None:
    assert not connection.is_open
    connection.ask("POST", "/", time.monotonic() + 60, b"1")
    assert connection.is_open
    connection.ask("POST", "/", time.monotonic() + 60, b"2")


def test_answer_beyond_the_bound_is_cut_and_closes_the_connection(
    connection: WebConnection, server: HookServer
) -> None:
    server.answer = b"x" * (3 * ANSWER_OCTETS)
    _, content = connection.ask("POST", "/", time.monotonic() + 60, b"")
    assert len(content) == ANSWER_OCTETS + 1
    assert not connection.is_open


def test_hanging_server_ends_the_request_at_its_deadline(connection: WebConnection, server: HookServer) -> None:
    server.may_answer.clear()
    with pytest.raises(TimeoutError):
        connection.ask("POST", "/", time.monotonic() + 0.05, b"")


def test_deadline_that_has_passed_sends_nothing(connection: WebConnection, server: HookServer) -> None:
    with pytest.raises(TimeoutError):
        connection.ask("POST", "/", time.monotonic() - 1, b"")
    assert server.got.empty()
