"""Ask a service for a price, and be the service."""

import asyncio
import os

import penstock

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")


async def serve(connection: penstock.Connection) -> None:
    """Answer each message."""
    async with connection.receiver("prices") as receiver:
        async for message in receiver:
            message.reply(b"2.50 for " + message.body)
            message.accept()


async def main() -> None:
    """Call once."""
    async with penstock.connect(URL) as connection:
        await connection.declare_queue("prices")
        service = asyncio.create_task(serve(connection))
        answer = await connection.call("prices", b"apples", timeout=5)
        print(answer.body.decode())
        service.cancel()


asyncio.run(main())
