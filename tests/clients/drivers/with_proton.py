"""Qpid Proton's Container: a sender and a receiver on one connection of AMQP 1.0."""

from __future__ import annotations

import sys
import threading
from typing import Any

import proton
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from tests.clients.drivers.common import read_task, tell


class Driver(MessagingHandler):  # type: ignore[misc]
    """All of it in callbacks; it sends whatever it has credit for."""

    def __init__(self) -> None:
        super().__init__()
        self.task = read_task()
        self.sent = 0
        self.answered = 0
        self.allowed = 1 if self.task.idle else self.task.count
        self.numbers: dict[str, int] = {}
        self.leaving = EventInjector()

    def on_start(self, event: Any) -> None:
        event.container.selectable(self.leaving)
        threading.Thread(target=self.watch, daemon=True).start()
        self.connection = event.container.connect(self.task.url.removesuffix("/%2F"), reconnect=False)
        self.receiver = event.container.create_receiver(self.connection, self.task.beside)
        self.sender = event.container.create_sender(self.connection, self.task.held)

    def watch(self) -> None:
        sys.stdin.read()
        self.leaving.trigger(ApplicationEvent("leave"))

    def on_leave(self, event: Any) -> None:
        self.leaving.close()
        self.connection.close()

    def on_sendable(self, event: Any) -> None:
        while self.sender.credit and self.sent < self.allowed:
            message = proton.Message(body=self.task.body(self.sent), inferred=True)
            self.numbers[self.sender.send(message).tag] = self.sent
            self.sent += 1

    def on_message(self, event: Any) -> None:
        message = event.message  # Its body is a view of its own memory.
        tell(received=int(bytes(message.body)))
        self.allowed = self.task.count
        self.on_sendable(event)

    def on_accepted(self, event: Any) -> None:
        self.answer(event, "confirmed")

    def on_rejected(self, event: Any) -> None:
        self.answer(event, "refused")

    def on_released(self, event: Any) -> None:
        self.answer(event, "refused")

    def answer(self, event: Any, outcome: str) -> None:
        if event.link.is_receiver:
            return
        tell(**{outcome: self.numbers.pop(event.delivery.tag)})
        self.answered += 1
        if self.answered == self.task.count:
            tell(done=True)

    def on_transport_error(self, event: Any) -> None:
        tell(failed=str(event.transport.condition))

    def on_link_error(self, event: Any) -> None:
        tell(failed=str(event.link.remote_condition))


if __name__ == "__main__":
    tell(version=".".join(map(str, proton.VERSION)))
    Container(Driver()).run()
