"""Orders as Celery tasks: `charge.delay()` waits while the queue is full, and fails after the hold deadline."""

from celery import Celery
from kombu import Queue

app = Celery("shop", broker="amqp://guest:guest@127.0.0.1:5672/")
app.conf.broker_transport_options = {"confirm_publish": True}
app.conf.broker_heartbeat = 0
app.conf.task_default_queue = "orders"
app.conf.task_queues = [Queue("orders", durable=True, queue_arguments={"capacity-messages": 20, "hold-deadline": 60})]
app.conf.task_publish_retry_policy = {"max_retries": 1, "interval_start": 0}
app.conf.task_acks_late = True
app.conf.task_ignore_result = True

charged: list[int] = []
"""Numbers of the orders that were charged; a real shop has a database."""


@app.task
def charge(number: int) -> None:
    """Charge an order."""
    charged.append(number)
