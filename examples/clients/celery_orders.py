"""Send tasks with Celery, and learn whether each is in its queue.

    celery -A celery_orders worker --pool solo     # in this folder
    python celery_orders.py 40

With `confirm_publish` the call `delay()` waits at a full queue, and raises `OperationalError` after the hold deadline.
"""

import os
import sys

from celery import Celery
from kombu import Queue
from kombu.exceptions import OperationalError

app = Celery("celery_orders", broker=os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/"))
app.conf.broker_transport_options = {"confirm_publish": True}
app.conf.broker_connection_retry_on_startup = True
app.conf.task_default_queue = "orders"
app.conf.task_queues = [Queue("orders", durable=True, queue_arguments={"capacity-messages": 20, "hold-deadline": 60})]
app.conf.task_publish_retry_policy = {"max_retries": 1, "interval_start": 0}
app.conf.task_acks_late = True
app.conf.task_reject_on_worker_lost = True
app.conf.task_ignore_result = True


@app.task
def charge(number: int) -> None:
    """Charge an order."""
    print(f"order {number} is done", flush=True)


if __name__ == "__main__":
    for each in range(1, int(sys.argv[1]) + 1):
        try:
            charge.delay(each)
        except OperationalError as refused:
            sys.exit(f"order {each} was refused: {refused}")
    print(f"{sys.argv[1]} orders are confirmed")
