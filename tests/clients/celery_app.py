"""A Celery application with the classic configuration for RabbitMQ; its tasks write down each of their runs."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery

app = Celery("tests", broker=os.environ["BROKER_URL"], backend="rpc://")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    result_expires=60,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@app.task
def square(number: int) -> int:
    """Return the square; leave a line for every run."""
    with Path(os.environ["RUNS"]).open("a") as runs:
        runs.write(f"{number}\n")
    return number * number
