"""Connections of HTTP: their end."""

from __future__ import annotations

import socket
from pathlib import Path

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
