"""aio-pika: some tasks publish at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.metadata import version

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import DeliveryError

from tests.clients.drivers.common import WINDOW, Task, read_task, tell, told_to_leave


async def receive(message: AbstractIncomingMessage) -> None:
    await message.ack()
    tell(received=int(message.body))


async def publish(channel: AbstractChannel, task: Task, numbers: Iterator[int]) -> None:
    for number in numbers:
        try:
            await channel.default_exchange.publish(aio_pika.Message(task.body(number)), task.held)
            tell(confirmed=number)
        except DeliveryError:
            tell(refused=number)


async def main() -> None:
    task, leaving = read_task(), told_to_leave()
    tell(version=version("aio-pika"))
    connection = await aio_pika.connect(task.url)
    consuming, publishing = await connection.channel(), await connection.channel()
    await (await consuming.get_queue(task.beside, ensure=False)).consume(receive)
    try:
        numbers = iter(range(task.count))
        await asyncio.gather(*(publish(publishing, task, numbers) for _ in range(WINDOW)))
        tell(done=True)
    except Exception as failure:
        tell(failed=repr(failure))
    await asyncio.to_thread(leaving.wait)
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
