"""Checks of the engine inside azure-servicebus: what it hears of its messages, and what it sends without credit.

Usage: python -m tests.clients.drivers.check_azure outcomes|flood URL QUEUE
"""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import urlsplit

from azure.servicebus._pyamqp import ReceiveClient, SendClient
from azure.servicebus._pyamqp.authentication import SASLPlainAuth
from azure.servicebus._pyamqp.error import AMQPException
from azure.servicebus._pyamqp.message import Message

from tests.clients.drivers.common import tell

what, text, name = sys.argv[1:]
url = urlsplit(text)
SERVER = url.netloc.rpartition("@")[2]
COMMON: dict[str, Any] = {
    "auth": SASLPlainAuth(url.username, url.password),
    "use_tls": False,
    "socket_timeout": 0.05,
}
FLOOD_OCTETS = 30_000


def outcome(target: str, message: Message) -> str:
    with SendClient(SERVER, target, **COMMON) as client:
        try:
            client.send_message(message)
        except AMQPException as error:
            return str(getattr(error.condition, "value", error.condition), "utf-8")
    return "accepted"


def receive(client: Any) -> tuple[Any, Any]:
    while client._received_messages.empty():
        client.do_work()
    found: tuple[Any, Any] = client._received_messages.get()
    return found


def outcomes() -> None:
    tell(
        outcomes=[
            outcome(name, Message(data=[b"a"])),
            outcome("/exchanges/amq.topic/nobody", Message(data=[b"b"])),
            outcome(name, Message(data=b"no list of sections")),
        ]
    )
    deliveries = []
    with ReceiveClient(SERVER, name, link_credit=1, **COMMON) as client:
        for state in ("released", "modified", "rejected"):
            frame, message = receive(client)
            header = message.header
            deliveries.append([b"".join(message.data).decode(), (header.delivery_count if header else 0) or 0])
            failed = {"delivery_failed": True} if state == "modified" else {}
            client.settle_messages(frame[1], frame[2], state, **failed)
    tell(deliveries=deliveries)


def flood() -> None:
    """Send much more than the broker holds beyond credit, without any wait, and tell what became of it."""
    count = 60
    answers: list[bool] = []
    with SendClient(SERVER, name, **COMMON) as client:
        while not client.client_ready():
            pass
        for number in range(count):
            client._link.send_transfer(
                Message(data=[str(number).encode().ljust(FLOOD_OCTETS)]),
                on_send_complete=lambda _reason, state: answers.append(state is not None),
            )
        tell(sent=count)
        try:
            while len(answers) < count:
                client.do_work()
        except AMQPException as error:
            tell(failed=str(getattr(error.condition, "value", error.condition)))
    tell(answers=len(answers), accepted=sum(answers))


{"outcomes": outcomes, "flood": flood}[what]()
