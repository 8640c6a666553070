"""Publish ten orders into a queue that takes one or two, and work on them when the publisher gives up."""

import asyncio
import logging
import os

import penstock

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")
OPTIONS = "?flow_control_wait_failure=3&flow_control_wait_notify_period=1"


async def main() -> None:
    """Wait, give up in time, make room, and go on with the same publisher."""
    async with penstock.connect(URL + OPTIONS) as connection:
        await connection.declare_queue("waiting-orders", capacity_messages=2, hold_deadline=60)
        publisher = connection.publisher("waiting-orders", window=1)
        try:
            for _ in range(10):
                await publisher.send(b"order")  # Waits, and warns each second in the log "penstock".
        except penstock.FlowControlTimeout as error:  # This order was not sent.
            print(error)
        except penstock.ConfirmTimeout as error:  # This one was sent, and has no answer yet.
            print(error)
        async with connection.receiver("waiting-orders") as receiver:
            while (message := await receiver.receive(timeout=1)) is not None:
                await message.accept()
        receipt = await publisher.send(b"again")  # All is as it was.
        print(f"again: {receipt.state}")


logging.basicConfig()
asyncio.run(main())
