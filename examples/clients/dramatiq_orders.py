"""Send messages to actors of Dramatiq, and learn whether each is in its queue.

    penstock queues set dramatiq-orders capacity-messages=20 hold-deadline=60
    dramatiq dramatiq_orders --processes 1 --threads 2     # in this folder
    python dramatiq_orders.py 40

With `confirm_delivery` the call `send()` waits at a full queue. Dramatiq takes no arguments for its queues, so their
capacity is set by name.
"""

import argparse
import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

url = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")
broker = RabbitmqBroker(url=url, confirm_delivery=True, middleware=[])
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="dramatiq-orders")
def charge(number: int) -> None:
    """Charge an order."""
    print(f"order {number} is done", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=int, help="number of orders, such as 40")
    count = parser.parse_args().count
    for each in range(1, count + 1):
        charge.send(each)
    print(f"{count} orders are confirmed")
    broker.close()
