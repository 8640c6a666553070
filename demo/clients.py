"""Three AMQP 0-9-1 clients of other people, each used as its own documentation shows, publishing as fast as it can.

None of them knows the broker or its gates. What holds them is what any broker may do: a confirm that does not come
yet, a socket that is not read.
"""

import asyncio
from collections import deque
from collections.abc import Callable
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
    """Publish under confirms with aio-pika: as many tasks as the window is wide, each awaiting its own confirm."""
    import aio_pika

    left = iter(bodies)
    sent = confirmed = 0

    async def work(exchange: Any) -> None:
        nonlocal sent, confirmed
        for body in left:  # one iterator for all tasks: every flight is taken once
            message = aio_pika.Message(body, content_type=CONTENT_TYPE)
            sent += 1
            while True:
                try:
                    await exchange.publish(message, routing_key=queue)
                    break
                except aio_pika.exceptions.DeliveryError:
                    continue  # refused, so it is in no queue: once more
            confirmed += 1
            progress(sent, confirmed)

    async def run() -> None:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel(publisher_confirms=True)
            async with asyncio.TaskGroup() as tasks:
                for _ in range(WINDOW):
                    tasks.create_task(work(channel.default_exchange))

    asyncio.run(run())


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


def publish_unconfirmed(url: str, queue: str, bodies: list[bytes], progress: Progress) -> None:
    """Publish with py-amqp without asking for confirms: only its socket tells it to wait.

    Closing the connection waits for the broker's last word, which comes after everything that was sent before.
    """
    import amqp

    with _connected_by_py_amqp(url) as connection:
        channel = connection.channel()
        for number, body in enumerate(bodies, 1):
            channel.basic_publish(amqp.Message(body, content_type=CONTENT_TYPE), routing_key=queue)
            progress(number, 0)


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
    "py-amqp": publish_with_py_amqp,
    "py-amqp-unconfirmed": publish_unconfirmed,
}
"""The publishers, by the name under which each logs in; the broker's ledger then tells them apart."""
