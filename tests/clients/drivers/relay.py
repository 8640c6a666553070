"""Clients that come back by themselves: each passes what it consumes from one queue on to another, until it is told to
leave.

`python -m tests.clients.drivers.relay LIBRARY URL SOURCE TARGET` acknowledges a delivery when the copy is confirmed,
so that no kill loses a message; a copy may come twice. A line of JSON tells each number that was passed on.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

from tests.clients.drivers.common import tell, told_to_leave

RETRY_S = 0.2
"""Seconds between two attempts of the libraries that have such a setting."""


async def with_aio_pika(url: str, source: str, target: str, leaving: threading.Event) -> None:
    """aio-pika's robust connection restores channels and consumers by itself; a publish that was cut off is repeated
    by the delivery, which comes again."""
    import aio_pika

    connection = await aio_pika.connect_robust(url, reconnect_interval=RETRY_S)
    channel = await connection.channel()
    queue = await channel.declare_queue(source, durable=True)  # What it has declared, it restores.

    async def pass_on(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        try:
            copy = aio_pika.Message(message.body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(copy, target)
            await message.ack()
            tell(passed=int(message.body))
        except (aio_pika.exceptions.AMQPException, ConnectionError, RuntimeError) as failure:
            tell(cut=repr(failure))

    await queue.consume(pass_on)
    await asyncio.to_thread(leaving.wait)
    await connection.close()


async def with_penstock(url: str, source: str, target: str, leaving: threading.Event) -> None:
    """Our client sends again by itself what has no outcome."""
    import penstock

    async with penstock.connect(url) as connection:
        publisher = connection.publisher(target)

        async def relay() -> None:
            async with connection.receiver(source) as receiver:
                while (delivery := await receiver.receive()) is not None:
                    body = bytes(delivery.body)
                    await publisher.send(penstock.Message(body, durable=True))
                    await delivery.accept()
                    tell(passed=int(body))

        task = asyncio.create_task(relay())
        await asyncio.wait(
            [task, asyncio.ensure_future(asyncio.to_thread(leaving.wait))], return_when="FIRST_COMPLETED"
        )
        if task.done():
            task.result()
        task.cancel()


def with_kombu(url: str, source: str, target: str, leaving: threading.Event) -> None:
    """kombu's ConsumerMixin, as the consumers of its documentation are written."""
    import kombu
    from kombu.mixins import ConsumerProducerMixin

    class Relay(ConsumerProducerMixin):  # type: ignore[misc]
        def __init__(self) -> None:
            self.connection = kombu.Connection(url, transport_options={"confirm_publish": True})

        def get_consumers(self, consumer: Any, channel: Any) -> list[Any]:
            return [consumer([kombu.Queue(source, no_declare=True)], on_message=self.receive, prefetch_count=1)]

        def receive(self, message: Any) -> None:
            self.producer.publish(
                bytes(message.body), routing_key=target, delivery_mode=2, retry=True,
                content_type="application/octet-stream", content_encoding="binary",
            )  # fmt: skip
            message.ack()
            tell(passed=int(bytes(message.body)))

        def on_connection_error(self, failure: Exception, interval: float) -> None:
            tell(cut=repr(failure))

    relay = Relay()

    def leave() -> None:
        leaving.wait()
        relay.should_stop = True

    threading.Thread(target=leave, daemon=True).start()
    relay.run()


def with_proton(url: str, source: str, target: str, leaving: threading.Event) -> None:
    """Qpid Proton's container reconnects by itself; its links come back with it."""
    import proton
    from proton.handlers import MessagingHandler
    from proton.reactor import ApplicationEvent, Container, EventInjector

    class Relay(MessagingHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(prefetch=10, auto_accept=False)
            self.waiting: dict[Any, Any] = {}
            self.injector = EventInjector()

        def on_start(self, event: Any) -> None:
            event.container.selectable(self.injector)
            threading.Thread(target=self.watch, daemon=True).start()
            self.connection = event.container.connect(url, reconnect=[RETRY_S] * 500)
            self.sender = event.container.create_sender(self.connection, target)
            self.receiver = event.container.create_receiver(self.connection, source)

        def watch(self) -> None:
            leaving.wait()
            self.injector.trigger(ApplicationEvent("leave"))

        def on_leave(self, event: Any) -> None:
            self.injector.close()
            self.connection.close()

        def on_message(self, event: Any) -> None:
            body = bytes(event.message.body)
            sent = self.sender.send(proton.Message(body=body, inferred=True, durable=True))
            self.waiting[sent] = (event.delivery, int(body))

        def on_accepted(self, event: Any) -> None:
            delivery, number = self.waiting.pop(event.delivery, (None, -1))
            if delivery is not None:
                self.accept(delivery)
                tell(passed=number)

        def on_disconnected(self, event: Any) -> None:
            self.waiting.clear()
            tell(cut="disconnected")

    Container(Relay()).run()


LIBRARIES = {"aio-pika": with_aio_pika, "penstock": with_penstock, "kombu": with_kombu, "Qpid Proton": with_proton}


def main() -> None:
    library, url, source, target = sys.argv[1:]
    leaving = told_to_leave()
    done = LIBRARIES[library](url, source, target, leaving)
    if asyncio.iscoroutine(done):
        asyncio.run(done)


if __name__ == "__main__":
    main()
