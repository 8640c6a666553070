"""See that a publisher is blocked, and goes on."""

import asyncio
import os

import penstock

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")


async def main() -> None:
    """Fill a queue of four messages, and make room."""
    async with penstock.connect(URL) as connection:
        await connection.declare_queue("small", capacity_messages=4, hold_deadline=60)
        events = connection.events()
        sending = asyncio.create_task(connection.publisher("small").send_many([b"x"] * 10))
        async for event in events:
            if event.source == "small":
                print(event.kind)
            if event.kind == "blocked":
                await connection.purge_queue("small")
            if event.kind == "unblocked":
                break
        async with connection.receiver("small") as receiver:
            receiving = asyncio.create_task(receiver.handle(lambda message: None))
            print((await sending).confirmed, "are confirmed")
            receiving.cancel()


asyncio.run(main())
