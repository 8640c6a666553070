"""A plain AMQP consumer (pika) that prints the summaries of the batches as they come."""

import argparse
import signal
import sys
from typing import Any

import pika  # type: ignore[import-untyped]

from demo.summary import in_words


def main() -> None:
    """Print and acknowledge every message of a queue until told to end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--queue", required=True)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    channel = pika.BlockingConnection(pika.URLParameters(given.url)).channel()

    def show(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        print(in_words(body), flush=True)
        channel.basic_ack(method.delivery_tag)

    channel.basic_qos(prefetch_count=10)
    channel.basic_consume(given.queue, show)
    channel.start_consuming()


if __name__ == "__main__":
    main()
