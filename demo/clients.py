"""AMQP 0-9-1 clients of other people, each used as its own documentation shows, publishing as fast as it can.

None of them knows the broker or its gates. What holds them is what any broker may do: a confirm that does not come yet.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import Any
from urllib.parse import urlsplit

CONTENT_TYPE = "text/csv"
WINDOW = 1_000
"""Messages without a confirm that a publisher allows itself; then it waits."""

Progress = Callable[[int, int], None]
"""Called with the numbers of messages sent and confirmed."""


def publish_with_pika(url: str, queue: str, bodies: list[bytes], progress: Progress) -> None:
    """Publish under confirms with pika's callbacks (`SelectConnection`)."""
    import pika  # type: ignore[import-untyped]

    properties = pika.BasicProperties(content_type=CONTENT_TYPE)
    window = _Window(bodies, progress)

    def send(channel: Any) -> None:
        while (body := window.next()) is not None:
            channel.basic_publish("", queue, body, properties, mandatory=True)

    def answered(channel: Any, frame: Any) -> None:
        method = frame.method
        window.answer(method.delivery_tag, method.multiple, isinstance(method, pika.spec.Basic.Ack))
        send(channel)
        if window.done:
            connection.close()

    def opened(channel: Any) -> None:
        channel.confirm_delivery(lambda frame: answered(channel, frame), callback=lambda _frame: send(channel))

    def failed(_connection: Any, error: BaseException) -> None:
        connection.ioloop.stop()
        if not isinstance(error, pika.exceptions.ConnectionClosedByClient):
            raise error

    connection = pika.SelectConnection(
        pika.URLParameters(url),
        on_open_callback=lambda opening: opening.channel(on_open_callback=opened),
        on_open_error_callback=failed,
        on_close_callback=failed,
    )
    try:
        connection.ioloop.start()
    finally:
        connection.ioloop.close()


def publish_with_aio_pika(url: str, queue: str, bodies: list[bytes], progress: Progress) -> None:
    """Publish under confirms with aio-pika."""
    import aio_pika

    async def run() -> None:
        async with await aio_pika.connect(url) as connection:
            exchange = (await connection.channel(publisher_confirms=True)).default_exchange

            async def publish(body: bytes) -> None:
                await exchange.publish(aio_pika.Message(body, content_type=CONTENT_TYPE), routing_key=queue)

            await _in_a_window(bodies, publish, progress)

    asyncio.run(run())


def publish_with_aiormq(url: str, queue: str, bodies: list[bytes], progress: Progress) -> None:
    """Publish under confirms with aiormq, the client below aio-pika."""
    import aiormq

    properties = aiormq.spec.Basic.Properties(content_type=CONTENT_TYPE)

    async def run() -> None:
        connection = await aiormq.connect(url)
        try:
            channel = await connection.channel(publisher_confirms=True)

            async def publish(body: bytes) -> None:
                await channel.basic_publish(body, routing_key=queue, properties=properties, mandatory=True)

            await _in_a_window(bodies, publish, progress)
        finally:
            await connection.close()

    asyncio.run(run())


async def _in_a_window(bodies: list[bytes], publish: Callable[[bytes], Awaitable[None]], progress: Progress) -> None:
    """Publish with as many tasks as the window is wide, each awaiting its own confirm."""
    from aiormq.exceptions import DeliveryError

    left = iter(bodies)
    sent = confirmed = 0

    async def work() -> None:
        nonlocal sent, confirmed
        for body in left:  # one iterator for all tasks: every flight is taken once
            sent += 1
            while True:
                try:
                    await publish(body)
                    break
                except DeliveryError:
                    continue  # refused, so it is in no queue: once more
            confirmed += 1
            progress(sent, confirmed)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(WINDOW):
            tasks.create_task(work())


def publish_with_py_amqp(url: str, queue: str, bodies: list[bytes], progress: Progress) -> None:
    """Publish under confirms with py-amqp: fill the window, then wait for answers."""
    import amqp  # type: ignore[import-untyped]

    window = _Window(bodies, progress)
    with _connected_by_py_amqp(url) as connection:
        channel = connection.channel()
        channel.events["basic_ack"].add(lambda tag, multiple: window.answer(tag, multiple, True))
        channel.events["basic_nack"].add(lambda tag, multiple: window.answer(tag, multiple, False))
        channel.confirm_select()
        while not window.done:
            while (body := window.next()) is not None:
                message = amqp.Message(body, content_type=CONTENT_TYPE)
                channel.basic_publish(message, routing_key=queue, mandatory=True)
            if not window.done:
                connection.drain_events()


def _connected_by_py_amqp(url: str) -> Any:
    import amqp

    parts = urlsplit(url)
    return amqp.Connection(f"{parts.hostname}:{parts.port}", userid=parts.username, password=parts.password)


class _Window:
    """Which messages are sent and without an answer; one that is refused is sent again."""

    def __init__(self, bodies: list[bytes], progress: Progress) -> None:
        self._bodies = iter(bodies)
        self._progress = progress
        self._again: deque[bytes] = deque()
        self._open: dict[int, bytes] = {}  # by delivery tag, in order
        self._tag = 0
        self._sent = 0
        self._confirmed = 0
        self._total = len(bodies)

    @property
    def done(self) -> bool:
        return self._confirmed == self._total

    def next(self) -> bytes | None:
        """Take the next message to be sent; None when the window is full or nothing is left."""
        if len(self._open) >= WINDOW:
            return None
        if self._again:
            body = self._again.popleft()
        else:
            fresh = next(self._bodies, None)
            if fresh is None:
                return None
            body = fresh
            self._sent += 1
        self._tag += 1
        self._open[self._tag] = body
        self._progress(self._sent, self._confirmed)
        return body

    def answer(self, tag: int, multiple: bool, confirmed: bool) -> None:
        """Note the broker's answer to one message, or to all up to it."""
        tags = list(takewhile(lambda each: each <= tag, self._open)) if multiple else [tag]
        bodies = [self._open.pop(each) for each in tags]
        if confirmed:
            self._confirmed += len(bodies)
        else:
            self._again.extend(bodies)
        self._progress(self._sent, self._confirmed)


CLIENTS = {
    "pika": publish_with_pika,
    "aio-pika": publish_with_aio_pika,
    "aiormq": publish_with_aiormq,
    "py-amqp": publish_with_py_amqp,
}
"""The publishers, by the name under which each logs in; the broker's ledger then tells them apart."""
