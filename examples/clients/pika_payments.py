"""Work on payments with pika: a payment that is not a number is rejected, and dies.

    python pika_payments.py 3
    python pika_payments.py 3 --forgiving

`--forgiving` works as the repaired program: it reads the words that people write for numbers.
"""

import argparse
import os

import pika

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")
QUEUE = "payments"
WORDS = {b"seven": 7, b"nine": 9}


def amount(body: bytes, forgiving: bool) -> int:
    """Return the amount of a payment. Raises ValueError."""
    return WORDS[body] if forgiving and body in WORDS else int(body)


def work(channel: pika.adapters.blocking_connection.BlockingChannel, count: int, forgiving: bool) -> None:
    """Work on payments; acknowledge what is done, and reject what can never be done."""
    for seen, (method, _, body) in enumerate(channel.consume(QUEUE), 1):
        try:
            print(f"paid {amount(body, forgiving)}")
            channel.basic_ack(method.delivery_tag)
        except ValueError:
            print(f"rejected: {body.decode()}")
            channel.basic_reject(method.delivery_tag, requeue=False)
        if seen == count:
            break
    channel.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=int, help="number of payments, such as 3")
    parser.add_argument("--forgiving", action="store_true", help="read words for numbers")
    given = parser.parse_args()
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        work(connection.channel(), given.count, given.forgiving)
