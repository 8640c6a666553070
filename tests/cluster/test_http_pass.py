"""Requests that a node passes on to a shard: headers, bodies of all forms, clients and shards that go away."""

from __future__ import annotations

import http.client
import json
import socket

import pytest
from starlette.requests import Request

from penstock.cluster.http_pass import Headers, answer_headers, request_headers, target_of
from tests.support.brokers import eventually
from tests.support.http_client import Web, received
from tests.support.web_node import WebNode

HELD = {"capacity-messages": 1, "stop-messages": 1, "resume-messages": 0}
QUEUE = "/queues/other/orders"
PUBLISH = "/exchanges/other/amq.default/publish"


def request(headers: Headers, query: bytes = b"") -> Request:
    return Request(
        {"type": "http", "method": "PUT", "headers": headers, "raw_path": b"/api/x%2Fy", "query_string": query}
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"authorization", b"Basic x"),
        (b"cookie", b"a=b"),
        (b"origin", b"https://example.com"),
        (b"host", b"example.com"),
        (b"expect", b"100-continue"),
        (b"keep-alive", b"5"),
        (b"upgrade", b"h2c"),
        (b"x-forwarded-for", b"10.0.0.1"),
        (b"penstock-asker", b"{}"),
        (b"penstock-key", b"00"),
        (b"penstock-other", b"1"),
    ],
)
def test_headers_of_the_node_and_of_one_connection_stay_there(name: bytes, value: bytes) -> None:
    kept = [(b"accept", b"*/*"), (b"content-type", b"application/json")]
    assert request_headers(request([*kept, (name, value)]), b"") == [*kept, (b"content-length", b"0")]


def test_headers_that_the_header_connection_names_stay_there() -> None:
    headers = [(b"connection", b"close, X-Own"), (b"x-own", b"1"), (b"accept", b"*/*")]
    assert request_headers(request(headers), None) == [(b"accept", b"*/*")]
    assert answer_headers([*headers, (b"date", b"now"), (b"server", b"Penstock")]) == [(b"accept", b"*/*")]


@pytest.mark.parametrize("header", [(b"content-length", b"7"), (b"transfer-encoding", b"chunked")])
def test_length_of_a_body_is_passed_on_in_its_form(header: tuple[bytes, bytes]) -> None:
    assert request_headers(request([header]), None) == [header]
    assert request_headers(request([header]), b"{}") == [(b"content-length", b"2")]


def test_target_is_passed_on_as_it_came() -> None:
    assert target_of(request([])) == b"/api/x%2Fy"
    assert target_of(request([], b"a=%2F&b")) == b"/api/x%2Fy?a=%2F&b"


# A node


@pytest.fixture(scope="module")
def other(node: WebNode) -> Web:
    """Return a client of a node whose second shard has the queue `orders`."""
    node.web.do("PUT", QUEUE, {"durable": True}, 201)
    return node.web


def body(text: str) -> dict[str, object]:
    return {"properties": {}, "routing_key": "orders", "payload": text, "payload_encoding": "string"}


def test_request_is_answered_by_the_shard_of_its_virtual_host(other: Web) -> None:
    assert other.ask("POST", PUBLISH, body("one")).json == {"routed": True}
    taken = other.ask("POST", f"{QUEUE}/get", {"ackmode": "ack_requeue_false", "count": 9, "encoding": "auto"})
    assert [each["payload"] for each in taken.json] == ["one"]
    assert other.ask("PUT", QUEUE, {"durable": True}).status == 204
    assert other.ask("GET", "/queues/other/none").json == {"error": "Object Not Found", "reason": "Not Found"}
    assert other.ask("GET", "/queues/%2F/orders").status == 404


def test_head_has_the_headers_of_get_and_no_body(other: Web) -> None:
    head, whole = other.ask("HEAD", f"{QUEUE}?columns=name"), other.ask("GET", f"{QUEUE}?columns=name")
    assert (head.status, head.body) == (200, b"")
    assert head.headers == whole.headers
    assert whole.json == {"name": "orders"}


def test_requests_on_one_connection_are_answered_in_turn(other: Web) -> None:
    with other.connected() as client:
        for path in (b"/api/whoami", b"/api/queues/other/orders?columns=name", b"/api/queues/%2F?columns=name"):
            client.sendall(other.whole(path.decode()))
            reader = http.client.HTTPResponse(client)
            reader.begin()
            assert (reader.status, reader.read()[:1]) == (200, b"[" if b"%2F" in path else b"{")


def test_body_in_chunks_with_an_expectation_is_passed_on(other: Web) -> None:
    data = json.dumps(body("x" * 100_000)).encode()
    with other.connected() as client:
        head = f"POST /api{PUBLISH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {other.login}\r\n"
        client.sendall(f"{head}Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n".encode())
        assert received(client, b"\r\n\r\n").startswith(b"HTTP/1.1 100")
        for start in range(0, len(data), 1000):
            part = data[start : start + 1000]
            client.sendall(b"%x\r\n%b\r\n" % (len(part), part))
        client.sendall(b"0\r\n\r\n")
        assert b'{"routed":true}' in received(client, b"}")
    other.do("DELETE", f"{QUEUE}/contents")


def test_body_that_is_too_large_is_refused_by_the_shard(other: Web) -> None:
    answer = other.ask("PUT", QUEUE, b"x" * 200_000)
    assert (answer.status, answer.json["error"]) == (413, "payload_too_large")


def test_client_that_goes_away_ends_its_held_request(other: Web) -> None:
    other.do("PUT", "/queues/other/full", {"arguments": {**HELD, "hold-deadline": 0}}, 201)
    one = {**body("one"), "routing_key": "full"}
    other.ask("POST", PUBLISH, one)
    data = json.dumps(one).encode()
    client = other.connected()
    head = f"POST /api{PUBLISH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {other.login}\r\n"
    client.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)

    def waiting() -> int:
        return int(other.get("/queues/other/full")["penstock"]["gate"]["waiting"])

    eventually(lambda: waiting() == 1, "the publish waits")
    client.shutdown(socket.SHUT_RDWR)
    client.close()
    eventually(lambda: waiting() == 0, "nobody waits any more")
    other.do("DELETE", "/queues/other/full")


def test_client_cannot_name_another_user_to_the_shard(node: WebNode) -> None:
    node.user("low", "management", "other")
    low = Web(node.process.http, "low", "low")
    asker = {"Penstock-Asker": '{"user":"guest"}', "Penstock-Key": "0" * 64}
    refused = low.ask("PUT", "/policies/other/p", {"pattern": ".", "definition": {"max-length": 1}}, asker)
    assert (refused.status, refused.reason) == (401, "User not authorised to access object")
    assert low.ask("GET", "/queues/other/orders?columns=name", None, asker).status == 200
    assert node.web.ask("POST", "/penstock/ask?operation=user.list", {}, asker).status == 404
    assert node.web.fetch("/penstock/ask?operation=user.list", asker).status in (404, 405)


def test_shard_that_ends_within_a_change_is_said_to_have(node: WebNode) -> None:
    web = node.web
    web.do("PUT", "/queues/other/stuck", {"arguments": {**HELD, "hold-deadline": 0}}, 201)
    one = {**body("one"), "routing_key": "stuck"}
    web.ask("POST", PUBLISH, one)
    with web.connected() as client:
        data = json.dumps(one).encode()
        head = f"POST /api{PUBLISH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {web.login}\r\n"
        client.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        eventually(lambda: web.get("/queues/other/stuck")["penstock"]["gate"]["waiting"] == 1, "the publish waits")
        node.kill(node.shard_of("other"))
        answer = received(client, b"}")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"the shard of this virtual host ended before it had answered" in answer
    assert web.get("/queues/other/orders?columns=name") == {"name": "orders"}  # The next process answers.
