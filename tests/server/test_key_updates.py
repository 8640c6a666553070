"""Floods of TLS key updates without a login: charged by the listeners."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support.brokers import PATIENCE
from tests.support.certificates import localhost, serving_tls
from tests.support.tls_records import DATA, RecordMaker

UPDATES = 2_000
"""Key updates that are charged twice; the rests of a stranger of HTTP for many more outlast its time for a login."""
REQUESTS = {"amqps": b"AMQP\x00\x00\x09\x01", "https": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"}
ANSWERS = {"amqps": b"PLAIN", "https": b"HTTP/1.1 "}


@pytest.mark.parametrize("scheme", REQUESTS)
def test_request_behind_a_flood_of_key_updates_is_answered(scheme: str, tmp_path: Path) -> None:
    authority = localhost(tmp_path)
    with serving_tls(tmp_path) as broker:
        port = broker.tls_port if scheme == "amqps" else int(broker.https.rpartition(":")[2])
        with socket.create_connection((broker.host, port), PATIENCE) as sock:
            maker = RecordMaker(authority.trusting(), tmp_path)
            maker.shake_hands(sock)
            updates = b"".join([maker.key_update() for _ in range(UPDATES)])
            sock.sendall(updates + maker.record(DATA, REQUESTS[scheme]))
            heard = b""
            while ANSWERS[scheme] not in heard:
                part = maker.decrypted(sock)
                assert part, heard
                heard += part
        assert "Traceback" not in broker.log()
