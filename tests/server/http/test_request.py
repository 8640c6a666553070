"""Requests over HTTP: unreadable bodies, credentials and values."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest

from penstock.server.http import connections, request
from tests.support.brokers import in_process
from tests.support.http_client import Web, disconnected


def test_body_that_is_too_large_is_refused(web: Web) -> None:
    answer = web.ask("POST", "/definitions", b" " * (16 * 1024 * 1024 + 1))
    assert (answer.status, answer.json["error"]) == (413, "payload_too_large")


@pytest.mark.parametrize("part", ["%ff", "a%fe", "%ED%A0%80"])
def test_name_that_is_not_utf_8_is_refused_and_names_nothing(web: Web, part: str) -> None:
    for path in (f"/queues/%2F/{part}", f"/vhosts/{part}", f"/exchanges/{part}/x"):
        answer = web.ask("PUT", path, {"type": "direct"} if "exchanges" in path else {})
        assert (answer.status, answer.json["error"]) == (400, "bad_request"), path
        assert answer.json["reason"] == f"'{part}' in the path is not UTF-8"
    assert not [each for each in web.get("/queues") + web.get("/vhosts") if "\ufffd" in each["name"]]


def test_request_with_two_body_lengths_is_refused_and_the_rest_is_not_read(web: Web) -> None:
    smuggled = b"0\r\n\r\n" + web.whole("/api/overview")
    for lengths in (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ):
        with web.connected() as client:
            client.sendall(web.whole(more=lengths) + smuggled)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while part := client.recv(65536):
                    answer += part
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1") == 1
        assert b"either Content-Length or Transfer-Encoding" in answer


@pytest.mark.parametrize("path", ["/queues", "/queues?page=1", "/queues/%2F", "/definitions", "/bindings", "/overview"])
async def test_lone_surrogate_in_a_name_spoils_no_answer(path: str) -> None:
    name = "half \ud800 ä"
    async with in_process(http="127.0.0.1:0") as broker:
        vhost = broker.driver.broker.vhosts["/"]
        vhost.declare_queue(name, {"k": name}, False, False, None, None)
        web = Web(broker.http_url)
        answer = await asyncio.to_thread(web.ask, "GET", path)
        assert answer.status == 200
        assert path == "/overview" or name in json.dumps(answer.json, ensure_ascii=False)
        no_text = await asyncio.to_thread(web.ask, "GET", "/queues/%2F/%ED%A0%80")
        assert no_text.status == 400


@pytest.mark.parametrize("path", ["/api/queues", "/api/queues?page=1&page_size=500", "/api/definitions"])
async def test_long_answer_not_read_in_time_closes_the_socket(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    monkeypatch.setattr(request, "SEND_S", 0.2)
    monkeypatch.setattr(connections, "IDLE_S", 0.2)  # A page is one piece: its socket is idle once it is written.
    async with in_process(http="127.0.0.1:0") as broker:
        vhost = broker.driver.broker.vhosts["/"]
        for number in range(500):
            vhost.declare_queue(f"q{number}", {"k": "x" * 10_000}, False, False, None, None)
        reader, writer = await asyncio.open_connection(*broker.http_addresses[0], limit=1024)
        writer.write(Web(broker.http_url).whole(path))
        await disconnected(broker)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reader.readexactly(100_000_000)
        writer.close()
        assert "Traceback" not in caplog.text, "it is no error of the broker"


@pytest.mark.parametrize(
    "credentials", [b"Basic \xff\xfe", b"Basic Z\xc3\xbc==", b"\xe9", b"Basic /w==", b"Basic " + b"9" * 5000]
)
def test_credentials_that_cannot_be_read_are_401(web: Web, credentials: bytes) -> None:
    with web.connected() as client:
        client.sendall(b"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + credentials + b"\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("digits", [20, 4300, 5000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_number_of_thousands_of_digits_is_400_in_any_field(web: Web, name: str, digits: int, sign: str) -> None:
    number = sign + "9" * digits
    queue, publish = f"/queues/%2F/{name}", "/exchanges/%2F/amq.default/publish"
    arguments = ("capacity-bytes", "x-max-length", "hold-deadline", "k")
    bodies = [("PUT", queue, f'{{"arguments":{{"{argument}":N}}}}') for argument in arguments]
    bodies += [("PUT", queue, f'{{"arguments":{{"{argument}":"N"}}}}') for argument in arguments[:3]]
    bodies += [("PUT", queue, '{"arguments":{"capacity-bytes":"NKiB"}}'), ("PUT", queue, '{"durable":N}')]
    bodies += [("POST", f"{queue}/get", '{"ackmode":"ack_requeue_true","encoding":"auto","count":N,"truncate":"N"}')]
    for properties in ('{"priority":N}', '{"expiration":"N"}', '{"timestamp":N}', '{"headers":{"k":N}}'):
        rest = '"routing_key":"k","payload":"","payload_encoding":"string"'
        bodies.append(("POST", publish, f'{{"properties":{properties},{rest}}}'))
    for fields in ('"durable":N', '"arguments":{"x-max-length":N}', '"arguments":{"capacity-bytes":"N"}'):
        bodies.append(("POST", "/definitions", f'{{"queues":[{{"name":"x","vhost":"/",{fields}}}]}}'))
    for method, path, body in bodies:
        answer = web.ask(method, path, body.replace("N", number).encode())
        assert answer.status in (400, 404), (body, answer)
        assert answer.reason
    for query in (f"page={number}", f"page=1&page_size={number}"):
        assert web.ask("GET", f"/queues?{query}").status == 400
    assert web.ask("GET", f"/health/checks/port-listener/{number}").status == 400


def test_arguments_that_are_nested_deeply_are_400(web: Web, name: str) -> None:
    for depth in (200, 900, 5000):
        body = b'{"arguments":{"k":' + b"[" * depth + b"]" * depth + b"}}"
        assert web.ask("PUT", f"/queues/%2F/{name}", body).status in (201, 204, 400)


def test_body_is_bounded_by_the_need_of_its_path(web: Web, name: str) -> None:
    long = "x" * 200_000
    for method, path in (("PUT", f"/queues/%2F/{name}"), ("POST", f"/queues/%2F/{name}/get"), ("PUT", "/vhosts/v")):
        answer = web.ask(method, path, {"arguments": {}, "note": long})
        assert (answer.status, answer.json["error"]) == (413, "payload_too_large")
        assert "131,072" in answer.reason
    assert web.publish(name, long).json == {"routed": False}
    assert web.publish(name, "x" * (4 << 20)).status == 413
