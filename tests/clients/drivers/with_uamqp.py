"""uamqp on azure-uamqp-c: a sender and a receiver of AMQP 1.0, each with a connection and a thread.

It speaks only TLS.
"""

from __future__ import annotations

import tempfile
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uamqp
from uamqp.authentication import SASLPlain
from uamqp.constants import MessageState
from uamqp.errors import ErrorPolicy

from tests.clients.drivers.common import read_task, tell, told_to_leave
from tests.support.tls_relay import TlsRelay, make_certificate

task = read_task()
leaving = told_to_leave()
arrived = threading.Event()
url = urlsplit(task.url)


def common() -> dict[str, Any]:
    login = SASLPlain("localhost", url.username, url.password, port=relay.port, verify=str(certificate))
    return {"auth": login, "error_policy": ErrorPolicy(max_retries=0)}


def publish() -> None:
    client = uamqp.SendClient(f"amqps://localhost/{task.held}", **common())
    for number in range(task.count):
        while number == 1 and task.idle and not arrived.is_set():
            client.do_work()
        client.queue_message(uamqp.Message(task.body(number)))
        (state,) = client.send_all_messages(close_on_done=False)
        if state is not MessageState.SendComplete:
            tell(failed=str(state))
            return
        tell(confirmed=number)
    tell(done=True)
    client.close()


def consume() -> None:
    client = uamqp.ReceiveClient(f"amqps://localhost/{task.beside}", prefetch=10, auto_complete=False, **common())
    while not leaving.is_set():
        for message in client.receive_message_batch(max_batch_size=10, timeout=50):  # Milliseconds.
            message.accept()
            tell(received=int(b"".join(message.get_data())))
            arrived.set()
    client.close()


with tempfile.TemporaryDirectory() as folder:
    certificate, key = make_certificate(Path(folder))
    relay = TlsRelay(certificate, key, str(url.hostname), int(url.port or 0))
    tell(version=version("uamqp"))
    uamqp._Platform.initialize()  # It fails where two threads do it at once.
    threads = [threading.Thread(target=work, daemon=True) for work in (publish, consume)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
