"""Connections of HTTP: their end."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import pytest

import penstock
from penstock.server.http.metrics import FigureSource
from penstock.settings.config import Settings
from tests.support.brokers import eventually, serving
from tests.support.http_client import Web


def test_stopping_broker_leaves_at_once_though_a_request_is_held(tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker:
        web = Web(broker.http)
        arguments = {"capacity-messages": 1, "stop-messages": 1, "resume-messages": 0, "hold-deadline": 0}
        web.declare("q", **arguments)
        web.publish("q")
        host, port = web.address.split(":")
        body = b'{"properties":{},"routing_key":"q","payload":"x","payload_encoding":"string"}'
        with socket.create_connection((host, int(port))) as client:
            client.sendall(
                b"POST /api/exchanges/%%2F/amq.default/publish HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (web.login.encode(), len(body), body)
            )
            eventually(lambda: web.queue("q")["penstock"]["gate"]["waiting"], "it is held")
            assert broker.stop() == 0
        assert "Traceback" not in broker.log()


async def test_stopping_broker_cancels_scrapes_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entered, released = threading.Event(), threading.Event()

    def process(source: FigureSource) -> list[object]:
        entered.set()
        released.wait()
        return []

    monkeypatch.setattr(FigureSource, "process", process)
    try:
        settings = Settings(metrics_listen="127.0.0.1:0")
        async with penstock.Broker(listen="127.0.0.1:0", settings=settings) as broker:
            reader, writer = await asyncio.open_connection(*broker.metrics_addresses[0])
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.to_thread(entered.wait)
        assert await reader.read() == b""
    except ConnectionResetError:
        pass  # The socket was aborted.
    finally:
        released.set()
    writer.close()
    assert [record for record in caplog.records if record.exc_info or "ASGI" in record.message] == []
