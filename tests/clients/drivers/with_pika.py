"""pika with its asyncio adapter: its blocking one calls no consumer while a publish waits for its confirmation."""

from __future__ import annotations

import asyncio
import sys

import pika
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel

from tests.clients.drivers.common import WINDOW, read_task, tell


class Driver:
    """All of it in callbacks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.task = read_task()
        self.loop = loop
        self.published = 0
        self.answered = 0
        self.connection = AsyncioConnection(
            pika.URLParameters(self.task.url),
            on_open_callback=self.opened,
            on_close_callback=self.closed,
            custom_ioloop=loop,
        )

    def opened(self, _: object) -> None:
        self.connection.channel(on_open_callback=self.consume)
        self.connection.channel(on_open_callback=self.publish)

    def consume(self, channel: Channel) -> None:
        channel.basic_consume(self.task.beside, self.receive)

    def receive(self, channel: Channel, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        tell(received=int(body))

    def publish(self, channel: Channel) -> None:
        channel.confirm_delivery(
            lambda frame: self.answer(channel, frame), callback=lambda _: self.publish_more(channel)
        )

    def publish_more(self, channel: Channel) -> None:
        while self.published < min(self.task.count, self.answered + WINDOW):
            channel.basic_publish("", self.task.held, self.task.body(self.published))
            self.published += 1

    def answer(self, channel: Channel, frame: pika.frame.Method) -> None:
        last = frame.method.delivery_tag
        first = self.answered + 1 if frame.method.multiple else last
        refused = isinstance(frame.method, pika.spec.Basic.Nack)
        for number in range(first - 1, last):
            tell(**{"refused" if refused else "confirmed": number})
        self.answered += last - first + 1
        self.publish_more(channel)
        if self.answered == self.task.count:
            tell(done=True)

    def closed(self, _: object, reason: BaseException) -> None:
        if not isinstance(reason, pika.exceptions.ConnectionClosedByClient):
            tell(failed=repr(reason))
        self.loop.stop()


def main() -> None:
    tell(version=pika.__version__)
    loop = asyncio.new_event_loop()
    driver = Driver(loop)

    def leave() -> None:
        loop.remove_reader(sys.stdin)
        driver.connection.close()

    loop.add_reader(sys.stdin, leave)
    loop.run_forever()


if __name__ == "__main__":
    main()
