"""Publish orders with pika, or work on them.

    python pika_orders.py publish 40
    python pika_orders.py work 40

A publish returns when the order is safe: in the queue, and on the disk if the broker has a store. At a full queue it
waits, and after the hold deadline it raises `NackError` with the reason.
"""

import argparse
import os
import sys

import pika
from pika.exceptions import NackError

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")
QUEUE = "pika-orders"
ARGUMENTS = {"capacity-messages": 20, "stop-messages": 10, "resume-messages": 5, "hold-deadline": 60}


def publish(channel: pika.adapters.blocking_connection.BlockingChannel, count: int) -> None:
    """Publish orders, each confirmed before the next."""
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    for number in range(1, count + 1):
        try:
            channel.basic_publish("", QUEUE, f"order {number}".encode(), persistent, mandatory=True)
        except NackError as refused:
            sys.exit(f"order {number} was refused: {refused.messages[0].method.reply_text}")
    print(f"{count} orders are confirmed")


def work(channel: pika.adapters.blocking_connection.BlockingChannel, count: int) -> None:
    """Work on orders, each acknowledged when it is done."""
    channel.basic_qos(prefetch_count=5)
    for done, (method, _, _) in enumerate(channel.consume(QUEUE), 1):
        channel.basic_ack(method.delivery_tag)
        if done == count:
            break
    channel.cancel()
    print(f"{count} orders are done")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", choices=("publish", "work"))
    parser.add_argument("count", type=int, help="number of orders, such as 40")
    given = parser.parse_args()
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        opened = connection.channel()
        opened.queue_declare(QUEUE, durable=True, arguments=ARGUMENTS)
        {"publish": publish, "work": work}[given.task](opened, given.count)
