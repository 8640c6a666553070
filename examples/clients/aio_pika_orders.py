"""Publish orders with aio-pika and work on them, in one program.

    python aio_pika_orders.py 40

Only the publishing coroutine waits at a full queue. The event loop and the consumer, on a connection of its own, go on.
"""

import argparse
import asyncio
import os

import aio_pika

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")
QUEUE = "aio-pika-orders"
ARGUMENTS = {"capacity-messages": 20, "stop-messages": 10, "resume-messages": 5, "hold-deadline": 60}


async def publish(count: int) -> None:
    """Publish orders; a refused one raises `aio_pika.exceptions.DeliveryError`."""
    async with await aio_pika.connect(URL) as connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        await channel.declare_queue(QUEUE, durable=True, arguments=ARGUMENTS)
        for number in range(1, count + 1):
            message = aio_pika.Message(f"order {number}".encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, QUEUE)
    print(f"{count} orders are confirmed")


async def work(count: int) -> None:
    """Work on orders, each acknowledged at the end of its block."""
    async with await aio_pika.connect(URL) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=5)
        queue = await channel.declare_queue(QUEUE, durable=True, arguments=ARGUMENTS)
        done = 0
        async with queue.iterator() as orders:
            async for order in orders:
                async with order.process():
                    done += 1
                if done == count:
                    break
    print(f"{count} orders are done")


async def main(count: int) -> None:
    """Publish and work at the same time."""
    await asyncio.gather(publish(count), work(count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=int, help="number of orders, such as 40")
    asyncio.run(main(parser.parse_args().count))
