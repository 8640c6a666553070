"""Consume orders at a limited rate, whatever waits in the queue.

    python consumer_rate.py 20 10

The second number is the most orders in a second (Artemis: consumerMaxRate). The broker delivers no faster, so no buffer
fills up in the client.
"""

import argparse
import os
import time

import pika

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")
QUEUE = "timed-orders"


def main(count: int, rate: int) -> None:
    """Publish orders at once, and consume them at the rate."""
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        for number in range(1, count + 1):
            channel.basic_publish("", QUEUE, f"order {number}".encode())
        begun = time.monotonic()
        for done, (method, _, _) in enumerate(channel.consume(QUEUE, arguments={"consumerMaxRate": rate}), 1):
            channel.basic_ack(method.delivery_tag)
            if done == count:
                break
        print(f"{count} orders are done in {time.monotonic() - begun:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=int, help="number of orders, such as 40")
    parser.add_argument("rate", type=int, help="most orders in a second, such as 10")
    given = parser.parse_args()
    main(given.count, given.rate)
