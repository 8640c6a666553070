"""Send tasks with Celery, and learn whether each is in its queue.

    celery -A celery_orders worker --pool solo     # in this folder
    python celery_orders.py 40

With `confirm_publish` the call `delay()` waits at a full queue, and raises `OperationalError` after the hold deadline.
"""

import argparse
import os
import sys

from celery import Celery
from kombu import Queue
from kombu.exceptions import OperationalError

ARGUMENTS = {"capacity-messages": 20, "hold-deadline": 60}

app = Celery("celery_orders", broker=os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/"))
app.conf.broker_transport_options = {"confirm_publish": True}
app.conf.broker_connection_retry_on_startup = True
app.conf.task_default_queue = "celery-orders"
app.conf.task_queues = [Queue("celery-orders", durable=True, queue_arguments=ARGUMENTS)]
app.conf.task_publish_retry_policy = {"max_retries": 1, "interval_start": 0}
app.conf.task_acks_late = True
app.conf.task_reject_on_worker_lost = True
app.conf.task_ignore_result = True


@app.task
def charge(number: int) -> None:
    """Charge an order."""
    print(f"order {number} is done", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=int, help="number of orders, such as 40")
    count = parser.parse_args().count
    for each in range(1, count + 1):
        try:
            charge.delay(each)
        except OperationalError as refused:
            sys.exit(f"order {each} was refused: {refused}")
    print(f"{count} orders are confirmed")
