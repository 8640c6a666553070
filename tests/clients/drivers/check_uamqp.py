"""Checks of uamqp: what it hears of its messages, and the outcomes it gives. Usage: check_uamqp URL QUEUE."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uamqp
from uamqp.authentication import SASLPlain
from uamqp.errors import ErrorPolicy
from uamqp.message import MessageProperties

from tests.clients.drivers.common import tell
from tests.support.tls_relay import TlsRelay, make_certificate

text, name = sys.argv[1:]
url = urlsplit(text)


def common() -> dict[str, Any]:
    login = SASLPlain("localhost", url.username, url.password, port=relay.port, verify=str(certificate))
    return {"auth": login, "error_policy": ErrorPolicy(max_retries=0)}


def outcome(address: str, body: bytes, **properties: object) -> str:
    client = uamqp.SendClient(f"amqps://localhost/{address}", **common())
    message = uamqp.Message(body, properties=MessageProperties(**properties))
    client.queue_message(message)
    (state,) = client.send_all_messages(close_on_done=False)
    client.close()
    failed = "" if state.name == "SendComplete" else f": {message._response}"
    return f"{state.name}{failed}"


def receive() -> None:
    deliveries = []
    client = uamqp.ReceiveClient(f"amqps://localhost/{name}", prefetch=10, auto_complete=False, **common())
    for state in ("release", "modify", "reject"):
        (message,) = client.receive_message_batch(max_batch_size=1)
        count = message.header.delivery_count if message.header else 0
        deliveries.append([b"".join(message.get_data()).decode(), count or 0])
        if state == "modify":
            message.modify(True, False)
        else:
            getattr(message, state)()
    client.close()
    tell(deliveries=deliveries)


with tempfile.TemporaryDirectory() as folder:
    certificate, key = make_certificate(Path(folder))
    relay = TlsRelay(certificate, key, str(url.hostname), int(url.port or 0))
    tell(
        outcomes=[
            outcome(name, b"a"),
            outcome("exchanges/amq.topic/nobody", b"b"),  # Released.
            outcome(name, b"c", user_id=b"somebody-else"),  # Rejected.
        ]
    )
    receive()
