"""Requests of any path, method, name and body: each is answered without an internal error."""

from __future__ import annotations

import json
import re
import socket
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.server.http.app import TABLE
from tests.profiles import examples
from tests.support.brokers import PATIENCE, BrokerProcess
from tests.support.http_client import Web

ENDLESS = ("/penstock/events",)
RESTARTS = ("/penstock/cluster/restart",)
"""Paths that end the shards of a node, which then answer nobody for a moment."""
ASKED = [(method, path) for path, handlers in TABLE.items() if path not in ENDLESS + RESTARTS for method in handlers]
NAMES = ("/", "fuzzed", "amq.default", "amq.direct", "", "%", "a b", "x" * 300, "ü\x00\ud7ff", "q", "e", "guest")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = ("durable", "auto_delete", "arguments", "type", "internal", "routing_key", "properties", "payload", "count",
        "payload_encoding", "ackmode", "encoding", "truncate", "queues", "exchanges", "bindings", "vhosts",
        "policies")  # fmt: skip
QUERIES = ("", "?page=1", "?page=-1", "?columns=a.b,,c", "?sort=messages", "?sort=.", "?page_size=0")


@pytest.mark.parametrize(("method", "path"), ASKED, ids=[f"{method} {path}" for method, path in ASKED])
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_request_of_any_path_and_body_is_no_internal_error(
    web: Web, method: str, path: str, data: st.DataObject
) -> None:
    names = {part: data.draw(st.sampled_from(NAMES)) for part in re.findall(r"\{(\w+)\}", path)}
    if path == "/vhosts/{vhost}" and names["vhost"] == "/":
        return  # It would be deleted, and others need it.
    where = path
    for part, name in names.items():
        where = where.replace("{" + part + "}", quote(name, safe=""))
    if (method, where) == ("DELETE", "/permissions/%2F/guest"):
        return  # Others need it, too.
    query = data.draw(st.sampled_from(QUERIES))
    body = data.draw(
        st.none() | st.binary(max_size=9) | values | st.dictionaries(st.sampled_from(KEYS), values, max_size=4)
    )
    answer = web.ask(method, where + query, body)
    assert answer.status < 500 or answer.status == 503, (method, where, query, body, answer)
    if answer.status >= 400:
        assert set(answer.json) >= {"error", "reason"} or answer.status == 503


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /api/overview HTTP/1.1\r\n\r\n",
        b"GET /api/../etc HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://x/api/overview HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/%ff%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/definitions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/definitions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /api/overview HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"AMQP\x00\x00\x09\x01",
    ],
)
def test_malformed_request_is_answered_or_cut_off(served: BrokerProcess, web: Web, sent: bytes) -> None:
    host, port = web.address.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
        try:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            answer = client.recv(65536)
        except ConnectionError:
            answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert web.get("/whoami")["name"] == "guest"


def test_client_that_leaves_during_a_long_list_causes_no_error(served: BrokerProcess, web: Web, name: str) -> None:
    web.do("PUT", f"/vhosts/{name}", status=201)
    queues = [{"vhost": name, "name": f"q{number}", "arguments": {"k": "x" * 200}} for number in range(5000)]
    web.do("POST", "/definitions", json.dumps({"queues": queues}).encode())
    host, port = web.address.split(":")
    for _ in range(3):
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            ask = f"GET /api/queues/{name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {web.login}\r\n\r\n"
            client.sendall(ask.encode())
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
    assert served.alive()
    web.do("DELETE", f"/vhosts/{name}")
    assert "Traceback" not in served.log()
