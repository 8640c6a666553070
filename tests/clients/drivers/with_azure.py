"""The engine inside azure-servicebus: a sender and a receiver of AMQP 1.0, each with a connection and a thread.

It sends as azure-servicebus does: one message, and waits for its outcome. Its sender takes no notice of credit: where
it has none it gives itself some, and sends.
"""

from __future__ import annotations

import threading
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from azure.servicebus._pyamqp import ReceiveClient, SendClient
from azure.servicebus._pyamqp.authentication import SASLPlainAuth
from azure.servicebus._pyamqp.error import AMQPException
from azure.servicebus._pyamqp.message import Message

from tests.clients.drivers.common import read_task, tell, told_to_leave

task = read_task()
leaving = told_to_leave()
arrived = threading.Event()
url = urlsplit(task.url)
COMMON: dict[str, Any] = {
    "auth": SASLPlainAuth(url.username, url.password),
    "use_tls": False,  # As with Microsoft's emulator.
    "socket_timeout": 0.05,  # Seconds that a turn waits for octets.
}


def publish() -> None:
    with SendClient(url.netloc.rpartition("@")[2], task.held, **COMMON) as client:
        for number in range(task.count):
            if number == 1 and task.idle:
                arrived.wait()
            try:
                client.send_message(Message(data=[task.body(number)]))
            except AMQPException as error:
                tell(failed=str(error))
                return
            tell(confirmed=number)
        tell(done=True)


def consume() -> None:
    with ReceiveClient(url.netloc.rpartition("@")[2], task.beside, link_credit=10, **COMMON) as client:
        while not leaving.is_set():
            client.do_work()
            while not client._received_messages.empty():
                frame, message = client._received_messages.get()
                client.settle_messages(frame[1], frame[2], "accepted")
                tell(received=int(b"".join(message.data)))
                arrived.set()


tell(version=version("azure-servicebus"))
threads = [threading.Thread(target=work, daemon=True) for work in (publish, consume)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
