"""Send and receive orders over AMQP 1.0 with Qpid Proton.

    penstock queues declare amqp10-orders capacity-messages=20 stop-messages=10 resume-messages=5
    python amqp10_orders.py send 40
    python amqp10_orders.py receive 40

A sender of AMQP 1.0 has credit for as many messages as there is room for. `send` waits for credit and for the outcome.
"""

import argparse
import os

from proton import Message
from proton.utils import BlockingConnection

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/").rstrip("/")
ADDRESS = "/queues/amqp10-orders"


def send(connection: BlockingConnection, count: int) -> None:
    """Send orders, each accepted before the next; a refused one raises `SendException`."""
    sender = connection.create_sender(ADDRESS)
    for number in range(1, count + 1):
        sender.send(Message(body=f"order {number}", durable=True))
    print(f"{count} orders are accepted")


def receive(connection: BlockingConnection, count: int) -> None:
    """Receive orders, each accepted when it is done."""
    receiver = connection.create_receiver(ADDRESS, credit=5)
    for _ in range(count):
        receiver.receive()
        receiver.accept()
    print(f"{count} orders are done")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", choices=("send", "receive"))
    parser.add_argument("count", type=int, help="number of orders, such as 40")
    given = parser.parse_args()
    opened = BlockingConnection(URL, timeout=120)
    {"send": send, "receive": receive}[given.task](opened, given.count)
    opened.close()
