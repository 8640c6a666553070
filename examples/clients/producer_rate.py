"""Publish orders at a limited rate.

    python producer_rate.py 20 10

The second number is the most orders in a second (Artemis: producerMaxRate). A client gives it among the properties of
its connection, and the broker lets each of its channels pass no more. The operator may set a lower one:

    penstock users set guest --each-producer producerMaxRate=5
"""

import argparse
import os
import time

import pika

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")
QUEUE = "paced-orders"


def main(count: int, rate: int) -> None:
    """Publish orders, each confirmed before the next."""
    parameters = pika.URLParameters(URL)
    parameters.client_properties = {"producerMaxRate": rate}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        channel.confirm_delivery()
        begun = time.monotonic()
        for number in range(1, count + 1):
            channel.basic_publish("", QUEUE, f"order {number}".encode())
        print(f"{count} orders are confirmed in {time.monotonic() - begun:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=int, help="number of orders, such as 40")
    parser.add_argument("rate", type=int, help="most orders in a second, such as 10")
    given = parser.parse_args()
    main(given.count, given.rate)
