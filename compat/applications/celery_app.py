"""A Celery application as it is written for RabbitMQ: results by `rpc`, or in files where a chord must count them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task
from kombu import Queue

app = Celery("compat", broker=os.environ["BROKER_URL"], backend=os.environ.get("RESULTS", "rpc://"))
app.conf.update(
    task_default_queue=os.environ["QUEUE"],
    task_queues=[Queue(os.environ["QUEUE"], queue_arguments={"x-max-priority": 5})]
    if "PRIORITY" in os.environ
    else None,
    task_default_queue_type=os.environ.get("QUEUE_TYPE", "classic"),
    worker_detect_quorum_queues=True,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    worker_send_task_events=True,
    task_send_sent_event=True,
    result_expires=60,
)


@app.task
def add(one: int, other: int) -> int:
    """Return the sum."""
    return one + other


@app.task
def total(numbers: list[int]) -> int:
    """Return the sum of all."""
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def third_time(self: Task[Any, Any], file: str) -> int:
    """Fail twice, then return how often it ran."""
    with Path(file).open("a") as runs:
        runs.write("x")
    count = len(Path(file).read_text())
    if count < 3:
        raise self.retry(countdown=0.2)
    return count


@app.task
def fail() -> None:
    """Raise an exception that the caller sees."""
    raise ValueError("as asked")


@app.task(acks_late=True, reject_on_worker_lost=True)
def note(file: str, seconds: float = 0) -> None:
    """Write down that it has begun, wait, write down that it has ended."""
    with Path(file).open("a") as runs:
        runs.write("begun\n")
    time.sleep(seconds)
    with Path(file).open("a") as runs:
        runs.write("ended\n")


@app.task
def when() -> float:
    """Return the time at which it ran."""
    return time.time()


@app.task
def order(file: str, number: int) -> None:
    """Write down a number."""
    with Path(file).open("a") as runs:
        runs.write(f"{number}\n")
