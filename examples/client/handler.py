"""Work on eight messages at a time."""

import asyncio
import os

import penstock

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")


async def work_on(message: penstock.Delivery) -> None:
    """Take a moment for a message."""
    await asyncio.sleep(0.01)


async def main() -> None:
    """Work on a hundred messages."""
    async with penstock.connect(URL) as connection:
        await connection.declare_queue("tasks")
        await connection.publisher("tasks").send_many(b"%d" % number for number in range(100))
        async with connection.receiver("tasks") as receiver:
            handling = asyncio.create_task(receiver.handle(work_on, concurrency=8))
            while receiver.counters.accepted < 100:
                await asyncio.sleep(0.1)
            await receiver.drain()  # No more messages come, and so `handle` returns.
            await handling
            print(receiver.counters.accepted, "tasks are done")


asyncio.run(main())
