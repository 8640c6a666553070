"""Consume orders without a buffer: who is busy keeps no order from the others.

    python no_buffering.py 40

A window of 0 bytes (Artemis: consumerWindowSize=0) is one message at a time. One consumer is busy with its first order,
and the other one gets all that follow.
"""

import argparse
import os

import pika

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")
QUEUE = "shared-orders"


def main(count: int) -> None:
    """Publish orders, and let two consumers share them."""
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        for number in range(1, count + 1):
            channel.basic_publish("", QUEUE, f"order {number}".encode())
        busy: list[int] = []
        done: list[int] = []

        def work(_: object, method: pika.spec.Basic.Deliver, __: object, ___: object) -> None:
            done.append(method.delivery_tag)
            channel.basic_ack(method.delivery_tag)

        window = {"consumerWindowSize": 0}
        channel.basic_consume(QUEUE, lambda _, method, *__: busy.append(method.delivery_tag), arguments=window)
        channel.basic_consume(QUEUE, work, arguments=window)
        while len(done) + len(busy) < count:
            connection.process_data_events(time_limit=1)
        print(f"the busy consumer has {len(busy)} order, and the other one had {len(done)}")
        for tag in busy:
            channel.basic_ack(tag)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=int, help="number of orders, such as 40")
    main(parser.parse_args().count)
