"""Requests to an HTTP API at a Unix socket."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from pathlib import Path
from typing import Any

from typing_extensions import override

from tests.support.brokers import PATIENCE

GUEST = "Basic " + base64.b64encode(b"guest:guest").decode()


class UnixConnection(http.client.HTTPConnection):
    """Connection to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


def asked(path: Path, method: str, target: str, body: object = None) -> Any:
    """Send a request of guest, which must succeed; return its answer, None for an empty one."""
    connection = UnixConnection(path)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, f"/api{target}", data, {"Authorization": GUEST, "Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        assert response.status < 300, (response.status, text)
        return json.loads(text) if text else None
    finally:
        connection.close()
