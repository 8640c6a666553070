"""Links through Qpid Proton: the smallest frames, settle modes, and a link that is detached and attached again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pika
import pytest

from penstock.flow.token_bucket import smooth
from tests.support.brokers import PATIENCE, BrokerProcess, some_name

pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")

import proton
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container, LinkOption, ReceiverOption

pytestmark = pytest.mark.clients


class Client(MessagingHandler):  # type: ignore[misc]
    """A client that ends itself, or is ended by its watchdog."""

    def __init__(self, broker: BrokerProcess, queue: str, **options: Any) -> None:
        super().__init__(**options)
        self.url = broker.url.rstrip("/")
        self.queue = queue
        self.errors: list[str] = []
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel().queue_declare(queue, durable=True)

    def run_it(self, **open_fields: Any) -> None:
        self.open_fields = open_fields
        Container(self).run()
        assert self.errors == []

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = self.container.connect(self.url, reconnect=False, **self.open_fields)
        self.links()
        self.watchdog = self.container.schedule(PATIENCE, self)

    def links(self) -> None:
        """Create the links."""

    def close(self) -> None:
        self.watchdog.cancel()
        self.connection.close()

    def on_timer_task(self, event: Any) -> None:
        self.errors.append(f"not within {PATIENCE} s")
        self.connection.close()

    def on_transport_error(self, event: Any) -> None:
        self.errors.append(str(event.transport.condition))

    def on_link_error(self, event: Any) -> None:
        self.errors.append(str(event.link.remote_condition))


class Echo(Client):
    """A client that sends messages of several sizes and receives them."""

    def __init__(self, broker: BrokerProcess, queue: str, option: Any) -> None:
        super().__init__(broker, queue, prefetch=50)
        self.option = option
        self.bodies = ["x" * (50_000 if number % 20 == 7 else number) for number in range(100)]
        self.sent = 0
        self.received: list[str] = []

    def links(self) -> None:
        self.container.create_sender(self.connection, self.queue, options=self.option)
        self.container.create_receiver(self.connection, self.queue, options=self.option)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self.sent < len(self.bodies):
            event.sender.send(proton.Message(body=self.bodies[self.sent]))
            self.sent += 1

    def on_message(self, event: Any) -> None:
        self.received.append(event.message.body)
        if len(self.received) == len(self.bodies):
            self.close()


@pytest.mark.parametrize("option", [None, AtMostOnce()], ids=["unsettled", "settled"])
def test_messages_pass_in_the_smallest_frames(broker: BrokerProcess, option: Any) -> None:
    client = Echo(broker, some_name("frames"), option)
    client.run_it(max_frame_size=512)
    assert client.received == client.bodies


class Lasting(ReceiverOption):  # type: ignore[misc]
    """A source that never expires."""

    def apply(self, link: Any) -> None:
        link.source.expiry_policy = proton.Terminus.EXPIRE_NEVER


class Resuming(Client):
    """A client whose receiver is detached with unsettled messages, and attached again by its name."""

    def __init__(self, broker: BrokerProcess, queue: str) -> None:
        super().__init__(broker, queue, prefetch=10, auto_accept=False)
        self.sent = 0
        self.again = False
        self.received: list[tuple[str, bool]] = []

    def links(self) -> None:
        self.container.create_sender(self.connection, self.queue)
        self.receive()

    def receive(self) -> None:
        self.container.create_receiver(self.connection, self.queue, name="lasting", options=Lasting())

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self.sent < 3:
            event.sender.send(proton.Message(body=str(self.sent)))
            self.sent += 1

    def on_message(self, event: Any) -> None:
        self.received.append((event.message.body, event.message.first_acquirer))
        if self.again:
            self.accept(event.delivery)
        if len(self.received) == 3:
            event.receiver.detach()
        elif len(self.received) == 6:
            self.close()

    def on_link_remote_detach(self, event: Any) -> None:
        self.again = True
        self.receive()


def test_unsettled_messages_return_to_their_link(broker: BrokerProcess) -> None:
    client = Resuming(broker, some_name("lasting"))
    client.run_it()
    assert client.received == [(str(n), True) for n in range(3)] + [(str(n), False) for n in range(3)]


class RatedSender(Client, LinkOption):  # type: ignore[misc]
    """A sender with a rate of its own, which saves credit up before it sends all that it may."""

    RATE = 20
    COUNT = 25

    def links(self) -> None:
        self.accepted = 0
        self.rates: list[object] = []
        self.begun = 0.0
        self.saving = self.container.schedule(1.0, Later(self.begin))
        self.sender = self.container.create_sender(self.connection, self.queue, options=self)

    def apply(self, link: Any) -> None:
        link.properties = proton.PropertyDict({proton.symbol("producerMaxRate"): self.RATE})

    def on_link_opened(self, event: Any) -> None:
        self.rates.append(event.link.remote_properties[proton.symbol("rate-messages")])
        self.sender.offered(self.COUNT)

    def begin(self) -> None:
        self.begun = time.monotonic()
        self.fill()

    def on_sendable(self, event: Any) -> None:
        self.fill()

    def fill(self) -> None:
        while self.begun and self.sender.credit:
            self.sender.send(proton.Message(body="x"))

    def on_accepted(self, event: Any) -> None:
        self.accepted += 1
        per_s, burst = smooth(self.RATE)
        if self.accepted > burst + per_s * (time.monotonic() - self.begun):
            self.errors.append(f"{self.accepted} after {time.monotonic() - self.begun} s")
        if self.accepted == self.COUNT:
            self.close()


class Later:
    """A call at the end of a time."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action

    def on_timer_task(self, event: Any) -> None:
        self.action()


def test_link_with_a_rate_of_its_own_saves_no_burst_up(broker: BrokerProcess) -> None:
    sender = RatedSender(broker, some_name("rated"))
    sender.run_it()
    assert sender.rates == [20.0]
    assert sender.accepted == RatedSender.COUNT
