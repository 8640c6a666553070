"""Ask a service for a list, and be the service."""

import asyncio
import os

import penstock

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")
FRUIT = {"red": ["apples", "cherries"], "yellow": ["bananas", "lemons", "quinces"]}


async def serve(connection: penstock.Connection) -> None:
    """Answer each message by a list."""
    async with connection.receiver("fruit") as receiver:
        async for message in receiver:
            await receiver.answer(message, [name.encode() for name in FRUIT[message.body.decode()]])
            message.accept()


async def main() -> None:
    """Print a list as it comes."""
    async with penstock.connect(URL) as connection:
        await connection.declare_queue("fruit")
        service = asyncio.create_task(serve(connection))
        async for answer in connection.answers("fruit", b"yellow", timeout=5):
            print(answer.body.decode())
        service.cancel()


asyncio.run(main())
