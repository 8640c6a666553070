"""Move each message to another queue: both or nothing."""

import asyncio
import os

import penstock

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")


async def main() -> None:
    """Move three messages, each in a transaction of its own."""
    async with penstock.connect(URL) as connection:
        for queue in ("drafts", "letters"):
            await connection.declare_queue(queue)
        await connection.publisher("drafts").send_many([b"one", b"two", b"three"])
        async with connection.transaction() as transaction:
            publisher = transaction.publisher("letters")
            receiver = await transaction.receiver("drafts")
            while (message := await receiver.receive(timeout=1)) is not None:
                await publisher.send(message.body.upper())
                message.accept()
                await transaction.commit()  # Or once, at the end of the block.
        print((await connection.why("letters")).depth.messages, "letters")


asyncio.run(main())
